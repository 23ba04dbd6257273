/* The rings: events and kept requests. */
#include "check.h"
#include "page/events.h"
#include "page/kept.h"

#define COUNT 8

static ab_page_event events[COUNT];
static uint64_t next;

static void note(uint64_t id, const char *text) {
  ab_page_event facts = {.kind = AB_PAGE_EVENT_STALL, .when = 10 + id, .id = id, .pid = 7};
  ab_page_event_write(events, COUNT, &next, &facts, (ab_view){text, strlen(text)});
}

CHECK_CASE(events_have_numbers) {
  memset(events, 0, sizeof events);
  next = 0;
  ab_page_event copy;
  CHECK(!ab_page_event_load(events, COUNT, 0, &copy));
  for (uint64_t i = 0; i < 20; i++) note(i, "app/reports.rb:41");
  CHECK_INT(20, next);
  for (uint64_t i = 0; i < 20; i++) CHECK(ab_page_event_load(events, COUNT, i, &copy) == (i >= 12));
  CHECK(ab_page_event_load(events, COUNT, 15, &copy));
  CHECK_INT(15, copy.id);
  CHECK_INT(25, copy.when);
  CHECK_BYTES("app/reports.rb:41", copy.text, copy.text_len);
  ab_page_event_write(events, 0, &next, &copy, (ab_view){"", 0});
  CHECK_INT(20, next);
}

CHECK_CASE(texts_are_cut_off) {
  char text[300];
  ab_page_event copy;
  memset(text, 'x', sizeof text);
  ab_page_event_write(events, COUNT, &next, &(ab_page_event){.kind = 0},
                      (ab_view){text, sizeof text});
  CHECK(ab_page_event_load(events, COUNT, next - 1, &copy));
  CHECK_INT(AB_PAGE_EVENT_TEXT, copy.text_len);
  ab_page_event_write(events, COUNT, &next, &(ab_page_event){.kind = 0}, (ab_view){NULL, 0});
  CHECK(ab_page_event_load(events, COUNT, next - 1, &copy));
  CHECK_INT(0, copy.text_len);
}

CHECK_CASE(an_event_that_lasts_ends) {
  ab_page_event copy, facts = {.kind = AB_PAGE_EVENT_STALL, .time = 5 | AB_PAGE_EVENT_LASTS};
  uint64_t n = ab_page_event_write(events, COUNT, &next, &facts, (ab_view){"a", 1});
  CHECK_INT(next - 1, n);
  ab_page_event_end(events, COUNT, n, 30, 20);
  CHECK(ab_page_event_load(events, COUNT, n, &copy));
  CHECK_INT(30, copy.time);
  CHECK_INT(20, copy.computed);
  ab_page_event_end(events, COUNT, n, 40, 20); /* it does not last any more */
  CHECK(ab_page_event_load(events, COUNT, n, &copy));
  CHECK_INT(30, copy.time);
  n = ab_page_event_write(events, COUNT, &next, &facts, (ab_view){"a", 1});
  for (int i = 0; i < COUNT; i++) {
    ab_page_event_write(events, COUNT, &next, &facts, (ab_view){"b", 1});
  }
  ab_page_event_end(events, COUNT, n, 30, 20); /* another one has its place */
  CHECK(ab_page_event_load(events, COUNT, n + COUNT, &copy));
  CHECK_INT(5 | AB_PAGE_EVENT_LASTS, copy.time);
  ab_page_event_end(events, 0, n, 30, 20);
}

CHECK_CASE(an_event_that_was_not_finished) {
  ab_page_event copy;
  note(1, "a");
  uint64_t n = next++; /* taken, begun, and then it was killed */
  events[n % COUNT].number = 2 * n + 1;
  note(2, "b");
  CHECK(ab_page_event_load(events, COUNT, n - 1, &copy));
  CHECK(!ab_page_event_load(events, COUNT, n, &copy));
  CHECK(ab_page_event_load(events, COUNT, n + 1, &copy));
  for (int i = 0; i < COUNT; i++) note(3, "c");
  CHECK(ab_page_event_load(events, COUNT, n + COUNT, &copy));
}

CHECK_CASE(garbage_is_not_read) {
  for (unsigned byte = 0; byte < 256; byte++) {
    ab_page_event copy;
    memset(events, (int)byte, sizeof events);
    for (uint64_t n = 0; n < COUNT; n++) {
      events[n].number = 2 * n + 2;
      if (ab_page_event_load(events, COUNT, n, &copy))
        CHECK(copy.kind < AB_PAGE_EVENT_KIND_COUNT && copy.text_len <= AB_PAGE_EVENT_TEXT);
    }
  }
  CHECK(strcmp("boot", ab_page_event_kind_name(AB_PAGE_EVENT_BOOT)) == 0);
  CHECK(strcmp("mark", ab_page_event_kind_name(AB_PAGE_EVENT_MARK)) == 0);
  CHECK(strcmp("log", ab_page_event_kind_name(AB_PAGE_EVENT_LOG)) == 0);
}

/* --- kept requests --- */

static ab_row kept[COUNT];

CHECK_CASE(rows_are_kept) {
  ab_row row = {.seq = 0}, copy;
  uint64_t number = 0;
  for (uint64_t i = 0; i < 20; i++) {
    ab_row_begin(&row, &(ab_row_start){.id = 100 + i, .began = 5, .path = {"/slow", 5}});
    ab_row_turn(&row, AB_STATE_SLEEP, 6);
    ab_row_turn(&row, AB_STATE_RUN, 6 + 2 * AB_NSEC_PER_MS);
    ab_kept_add(kept, COUNT, &number, &row, AB_KEPT_SLOW | AB_KEPT_SAMPLED);
    ab_row_end(&row);
  }
  CHECK_INT(20, number);
  for (uint64_t i = 0; i < 20; i++) CHECK(ab_kept_load(kept, COUNT, i, &copy) == (i >= 12));
  CHECK(ab_kept_load(kept, COUNT, 13, &copy));
  CHECK_INT(113, copy.id);
  CHECK_INT(AB_KEPT_SLOW | AB_KEPT_SAMPLED, copy.reason);
  CHECK_INT(2 * AB_NSEC_PER_MS, copy.sums[AB_STATE_SLEEP]);
  CHECK_INT(6 + 2 * AB_NSEC_PER_MS, copy.since);
  CHECK_BYTES("/slow", copy.path, copy.path_len);
  ab_wait waits[AB_ROW_WAITS];
  CHECK_INT(1, ab_row_waits(&copy, waits));
  ab_row_open(&kept[5]); /* killed while it kept */
  CHECK(!ab_kept_load(kept, COUNT, 13, &copy));
  ab_row_begin(&row, &(ab_row_start){.id = 1});
  number = 21;
  ab_kept_add(kept, COUNT, &number, &row, 0);
  CHECK(ab_kept_load(kept, COUNT, 21, &copy));
  ab_kept_add(kept, 0, &number, &row, 0);
  CHECK_INT(22, number);
}

CHECK_MAIN()
