/* Words of the page as Ruby's objects. */
#include "page/look.h"
#include "rb/page/rb_page_parts.h"

VALUE ab__seconds(ab_nsec time) {
  return DBL2NUM((double)time / (double)AB_NSEC_PER_SEC);
}

/* By the clocks as they were when the page was made: monotonic time does not jump. */
ab_nsec ab__clock_offset(VALUE slot) {
  const ab_page_head *head = ab__slot_head(slot);
  return head->made_at_unix - head->made_at;
}

VALUE ab__time(ab_nsec monotonic, ab_nsec offset) {
  ab_nsec wall = monotonic + offset;
  return rb_time_nano_new((time_t)(wall / AB_NSEC_PER_SEC), (long)(wall % AB_NSEC_PER_SEC));
}

VALUE ab__addr_text(const ab_addr *addr) {
  char text[AB_ADDR_TEXT_MAX];
  if (addr->family != 4 && addr->family != 6) return Qnil;
  return rb_usascii_str_new(text, (long)ab_addr_text(addr, text));
}

VALUE ab__addr_place(const ab_addr *addr) {
  char text[AB_ADDR_PLACE_MAX];
  if (addr->family != 4 && addr->family != 6) return Qnil;
  return rb_usascii_str_new(text, (long)ab_addr_place(addr, text));
}

VALUE ab__state_symbol(enum ab_state state) {
  return ID2SYM(rb_intern(ab_state_name(state)));
}

void ab__state_symbols_init(ab__state_symbols *symbols) {
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) symbols->of[i] = ab__state_symbol((enum ab_state)i);
}

VALUE ab__state_sums(const uint64_t sums[AB_STATE_COUNT]) {
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    uint64_t sum = AB_GET(sums[i]);
    if (sum) rb_hash_aset(hash, ab__state_symbol((enum ab_state)i), ab__seconds(sum));
  }
  return hash;
}

VALUE ab__route_name(const ab_page_parts *parts, uint32_t number) {
  char name[AB_PAGE_ROUTE_NAME];
  ab_view route = ab_page_route_of(parts, number, name);
  return route.ptr ? rb_utf8_str_new(route.ptr, (long)route.len) : Qnil;
}
