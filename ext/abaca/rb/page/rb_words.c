/* Words of the page as Ruby's objects. */
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

static char *put_number(char *at, unsigned number) {
  char digits[5];
  unsigned count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) *at++ = digits[--count];
  return at;
}

/* The C library's takes longer than the rest of a row. */
static char *put_ipv4(char *at, const uint8_t bytes[4]) {
  for (unsigned i = 0; i < 4; i++) {
    if (i > 0) *at++ = '.';
    at = put_number(at, bytes[i]);
  }
  return at;
}

static char *put_addr(char *at, const ab_addr *addr) {
  return addr->family == 4 ? put_ipv4(at, addr->bytes) : at + ab_addr_text(addr, at);
}

VALUE ab__addr_text(const ab_addr *addr) {
  char text[AB_ADDR_TEXT_MAX];
  if (addr->family != 4 && addr->family != 6) return Qnil;
  return rb_usascii_str_new(text, put_addr(text, addr) - text);
}

VALUE ab__addr_place(const ab_addr *addr) {
  char text[AB_ADDR_TEXT_MAX + 10], *at = text;
  if (addr->family != 4 && addr->family != 6) return Qnil;
  if (addr->family == 6) *at++ = '[';
  at = put_addr(at, addr);
  if (addr->family == 6) *at++ = ']';
  *at++ = ':';
  return rb_usascii_str_new(text, put_number(at, addr->port) - text);
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
  if (number + 1 >= parts->route_count)
    return number + 1 == parts->route_count ? rb_usascii_str_new_cstr("_OTHER") : Qnil;
  if (number >= ab_page_routes_used(&parts->slot->app.routes, parts->route_count)) return Qnil;
  uint32_t len = ab_page_route_name(&parts->routes[number], name);
  return rb_utf8_str_new(name, len);
}
