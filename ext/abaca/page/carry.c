#include "page/carry.h"

#include "page/internal.h"

static void carry_routes(const ab_page_parts *to, const ab_page_parts *from) {
  uint32_t count = to->route_count < from->route_count ? to->route_count : from->route_count;
  uint32_t used = ab_page_routes_used(&from->slot->app.routes, count);
  for (uint32_t i = 0; i < used; i++) {
    to->routes[i].name_len = ab_page_route_name(&from->routes[i], to->routes[i].name);
  }
  to->slot->app.routes = used;
}

/* The first number of those that may still be there. */
static uint64_t first_of(uint64_t next, uint32_t count) {
  return next > count ? next - count : 0;
}

static void carry_events(const ab_page_parts *to, const ab_page_parts *from) {
  uint64_t next = AB_GET(from->slot->events);
  for (uint64_t n = first_of(next, from->event_count); n < next && to->event_count; n++) {
    ab_page_event event;
    if (ab_page_event_load(from->events, from->event_count, n, &event))
      to->events[n % to->event_count] = event;
  }
  to->slot->events = next;
}

static void carry_kept(const ab_page_parts *to, const ab_page_parts *from) {
  uint64_t next = ab_kept_next(&from->slot->app.kept);
  for (uint64_t n = first_of(next, from->kept_count); n < next && to->kept_count; n++) {
    ab_row row;
    if (ab_kept_load(from->kept, from->kept_count, n, &row)) to->kept[n % to->kept_count] = row;
  }
  to->slot->app.kept = next;
}

static void carry_records(ab_history_record *to, uint32_t count, const ab_history_record *from,
                          uint32_t from_count) {
  for (uint32_t i = 0; i < from_count && count; i++) {
    ab_history_record record;
    uint32_t tick = AB_GET(from[i].tick);
    if (!ab_history_load(from, from_count, tick, &record)) continue;
    if (to[tick % count].tick < tick) to[tick % count] = record;
  }
}

/* Copies what a slot remembers. Readers show a slot that has had a holder. */
static void carry_slot(const ab_page_parts *to, const ab_page_parts *from) {
  carry_routes(to, from);
  carry_events(to, from);
  carry_kept(to, from);
  carry_records(to->seconds, to->second_count, from->seconds, from->second_count);
  carry_records(to->tens, to->ten_count, from->tens, from->ten_count);
  to->slot->settled = 1;
  /* Release: whoever sees the holder sees the above. */
  __atomic_store_n(&to->slot->holder, 1, __ATOMIC_RELEASE);
}

/* Of the slots of a page, each number of a worker has one or two. */
static uint32_t numbers_of(const ab_page *page) {
  uint32_t size = ab_page_size(page);
  return size > 1 ? size / 2 : 1;
}

void ab_page_carry(ab_page *to, const ab_page *from) {
  uint32_t numbers = numbers_of(to), old = numbers_of(from), size = ab_page_size(to);
  for (uint32_t i = 0; i < ab_page_size(from); i++) {
    uint32_t index = i % old + i / old * numbers;
    ab_page_parts source = ab_page_parts_to_read(from, i);
    if (i % old >= numbers || index >= size || !source.event_count) continue;
    if (ab__page_reserve(to, index) != AB_OK) continue;
    ab_page_parts target = ab_page_parts_of(to, index);
    if (target.slot->holder == 0) carry_slot(&target, &source);
  }
}
