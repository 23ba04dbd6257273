#include "page/events.h"

uint64_t ab_page_event_write(ab_page_event *events, uint32_t count, uint64_t *next,
                             const ab_page_event *facts, ab_view text) {
  if (count == 0) return 0;
  ab_page_event whole = *facts;
  whole.text_len = (uint8_t)(text.len < AB_PAGE_EVENT_TEXT ? text.len : AB_PAGE_EVENT_TEXT);
  memset(whole.text, 0, sizeof(whole.text));
  if (whole.text_len) memcpy(whole.text, text.ptr, whole.text_len);
  uint64_t n = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
  ab_page_event *event = &events[n % count];
  /* Relaxed, with the fence: no store below is seen before the odd number. Partner: the fence in
   * ab_page_event_load. */
  AB_PUT(event->number, 2 * n + 1);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  ab_words_put(&event->when, &whole.when, sizeof(whole) - offsetof(ab_page_event, when));
  uint64_t own = 2 * n + 1;
  /* Release: whoever sees the even number sees the event. Partner: the acquire in
   * ab_page_event_load. */
  __atomic_compare_exchange_n(&event->number, &own, 2 * n + 2, false, __ATOMIC_RELEASE,
                              __ATOMIC_RELAXED);
  return n;
}

void ab_page_event_end(ab_page_event *events, uint32_t count, uint64_t n, ab_nsec time,
                       ab_nsec computed) {
  if (count == 0) return;
  ab_page_event *event = &events[n % count];
  ab_nsec before = AB_GET(event->time);
  if (AB_GET(event->number) != 2 * n + 2 || !(before & AB_PAGE_EVENT_LASTS)) return;
  AB_PUT(event->computed, computed);
  /* Release: a reader that sees the stall as over also sees `computed`. */
  __atomic_compare_exchange_n(&event->time, &before, time, false, __ATOMIC_RELEASE,
                              __ATOMIC_RELAXED);
}

bool ab_page_event_load(const ab_page_event *events, uint32_t count, uint64_t n,
                        ab_page_event *copy) {
  const ab_page_event *event = &events[n % count];
  if (__atomic_load_n(&event->number, __ATOMIC_ACQUIRE) != 2 * n + 2) return false;
  ab_words_get(copy, event, sizeof(*copy));
  /* The words above come before this one. Partner: the fence in ab_page_event_write. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return AB_GET(event->number) == 2 * n + 2 && copy->kind < AB_PAGE_EVENT_KIND_COUNT &&
         copy->text_len <= AB_PAGE_EVENT_TEXT;
}

const char *ab_page_event_kind_name(enum ab_page_event_kind kind) {
  static const char *const names[] = {
#define AB_PAGE_EVENT_KIND_TEXT(name, text) text,
      AB_PAGE_EVENT_KINDS(AB_PAGE_EVENT_KIND_TEXT)
#undef AB_PAGE_EVENT_KIND_TEXT
  };
  return names[kind];
}
