#include "page/row_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "page/look.h"

/* --- which ones --- */

size_t ab_row_found_most(const ab_page_parts *parts) {
  return (size_t)ab_page_rows_marked(parts) + ab_page_queued_marked(parts);
}

static size_t row_json_find(ab_row_found *found, size_t most, const ab_row *rows, uint32_t count,
                            uint32_t slot) {
  size_t used = 0;
  for (uint32_t i = 0; i < count && used < most; i++) {
    if (!AB_GET(rows[i].used)) continue;
    found[used++] = (ab_row_found){.began = AB_GET(rows[i].began), .row = &rows[i], .slot = slot};
  }
  return used;
}

size_t ab_row_find(ab_row_found *found, size_t most, const ab_page_parts *parts, uint32_t slot) {
  size_t used = row_json_find(found, most, parts->rows, ab_page_rows_marked(parts), slot);
  return used + row_json_find(found + used, most - used, parts->queued,
                              ab_page_queued_marked(parts), slot);
}

static int oldest_first(const void *a, const void *b) {
  ab_nsec one = ((const ab_row_found *)a)->began, other = ((const ab_row_found *)b)->began;
  return one < other ? -1 : one > other;
}

void ab_row_sort(ab_row_found *found, size_t count) {
  qsort(found, count, sizeof(*found), oldest_first);
}

/* --- pieces --- */

/* Stands for bytes that are no UTF-8: in the control server's answers, and on screens. */
static const ab_view plain_mark = {"?", 1}, mark = {"\xef\xbf\xbd", 3};

static char *row_json_put(char *at, const char *text) {
  size_t len = strlen(text);
  memcpy(at, text, len);
  return at + len;
}

static char *put_name(char *at, const char *text) {
  *at++ = '"';
  at = row_json_put(at, text);
  *at++ = '"';
  return at;
}

/* An address has none of the bytes that are escaped. */
static char *row_json_put_addr(char *at, const ab_addr *addr) {
  if (addr->family != 4 && addr->family != 6) return row_json_put(at, "null");
  *at++ = '"';
  at += ab_addr_text(addr, at);
  *at++ = '"';
  return at;
}

static char *put_place(char *at, const ab_addr *addr) {
  if (addr->family != 4 && addr->family != 6) return row_json_put(at, "null");
  *at++ = '"';
  at += ab_addr_place(addr, at);
  *at++ = '"';
  return at;
}

/* "0.4711"; in the queue, "0.q3". */
static char *put_id(char *at, uint32_t slot, uint64_t id) {
  static const uint64_t queued = (uint64_t)1 << 63;
  *at++ = '"';
  at = ab_json_count(at, slot);
  *at++ = '.';
  if (id & queued) *at++ = 'q';
  at = ab_json_count(at, id & ~queued);
  *at++ = '"';
  return at;
}

static char *put_text(char *at, const char *ptr, size_t len, ab_view stand_in) {
  return ab_json_text(at, (ab_view){ptr, len}, stand_in);
}

static ab_nsec here(const ab_row *row, const ab_row_beside *beside) {
  return beside->now > row->since ? beside->now - row->since : 0;
}

static ab_nsec age(const ab_row *row, const ab_row_beside *beside) {
  ab_nsec last = row->since + here(row, beside);
  return last > row->began ? last - row->began : 0;
}

/* --- all that there is --- */

static char *put_sums(char *at, const ab_row *row, const ab_row_beside *beside) {
  const char *comma = "";
  *at++ = '{';
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    uint64_t sum = row->sums[i] + (i == row->state ? here(row, beside) : 0);
    if (!sum) continue;
    at = put_name(row_json_put(at, comma), ab_state_name((enum ab_state)i));
    *at++ = ':';
    at = ab_json_fraction(at, sum);
    comma = ",";
  }
  *at++ = '}';
  return at;
}

static char *put_trace(char *at, const ab_row *row) {
  static const uint8_t none[sizeof(row->trace)];
  static const char digits[] = "0123456789abcdef";
  if (memcmp(row->trace, none, sizeof(none)) == 0) return row_json_put(at, "null");
  *at++ = '"';
  for (size_t i = 0; i < sizeof(row->trace); i++) {
    *at++ = digits[row->trace[i] >> 4];
    *at++ = digits[row->trace[i] & 15];
  }
  *at++ = '"';
  return at;
}

static char *put_waits(char *at, const ab_row *row) {
  ab_wait waits[AB_ROW_WAITS];
  unsigned count = ab_row_waits(row, waits);
  *at++ = '[';
  for (unsigned i = 0; i < count; i++) {
    ab_addr peer = {.port = waits[i].port, .family = waits[i].family};
    memcpy(peer.bytes, waits[i].peer, sizeof(waits[i].peer));
    at = ab_json_fraction(row_json_put(at, i > 0 ? ",[" : "["), waits[i].at * (uint64_t)1000);
    at = ab_json_fraction(row_json_put(at, ","), waits[i].time * (uint64_t)1000);
    at = put_name(row_json_put(at, ","), ab_state_name((enum ab_state)waits[i].state));
    at = row_json_put(put_place(row_json_put(at, ","), &peer), "]");
  }
  *at++ = ']';
  return at;
}

char *ab_row_json(char *at, const ab_row *row, const ab_row_beside *beside) {
  ab_view route = beside->route;
  at = ab_json_count(row_json_put(at, "{\"worker\":"), beside->worker);
  at = ab_json_fraction(row_json_put(at, ",\"since\":"), here(row, beside));
  at = put_place(row_json_put(at, ",\"waits_for\":"), &row->waits_for);
  at = put_id(row_json_put(at, ",\"id\":"), beside->slot, row->id);
  at = ab_json_fraction(row_json_put(at, ",\"age\":"), age(row, beside));
  at = put_name(row_json_put(at, ",\"state\":"), ab_state_name((enum ab_state)row->state));
  at = put_name(row_json_put(at, ",\"mode\":"), ab_row_mode_name((enum ab_row_mode)row->mode));
  at = put_name(row_json_put(at, ",\"phase\":"), ab_row_phase_name((enum ab_row_phase)row->phase));
  at = put_name(row_json_put(at, ",\"method\":"),
                ab_row_method_name((enum ab_row_method)row->method));
  at = put_text(row_json_put(at, ",\"path\":"), row->path, row->path_len, plain_mark);
  at = row_json_put(at, ",\"route\":");
  at = route.ptr ? put_text(at, route.ptr, route.len, plain_mark) : row_json_put(at, "null");
  at = row_json_put_addr(row_json_put(at, ",\"peer\":"), &row->peer);
  at = row_json_put(at, ",\"status\":");
  at = row->status ? ab_json_count(at, row->status) : row_json_put(at, "null");
  at = ab_json_count(row_json_put(at, ",\"place\":"), row->place);
  at = ab_json_count(row_json_put(at, ",\"children\":"), row->children);
  at = put_sums(row_json_put(at, ",\"sums\":"), row, beside);
  at = put_trace(row_json_put(at, ",\"trace\":"), row);
  if (row->cpu) at = ab_json_fraction(row_json_put(at, ",\"cpu\":"), row->cpu * (uint64_t)1000);
  if (beside->waits) at = put_waits(row_json_put(at, ",\"waits\":"), row);
  return row_json_put(at, "}");
}

/* --- the screen's --- */

/* Half of a microsecond is rounded up. */
static char *put_short(char *at, ab_nsec time) {
  return ab_json_fraction(at, (time / 1000 + (time % 1000 >= 500)) * 1000);
}

char *ab_row_json_short(char *at, const ab_row *row, const ab_row_beside *beside) {
  ab_view route = beside->route;
  at = put_id(row_json_put(at, "{\"id\":"), beside->slot, row->id);
  at = put_short(row_json_put(at, ",\"age\":"), age(row, beside));
  at = ab_json_count(row_json_put(at, ",\"worker\":"), beside->worker);
  at = put_name(row_json_put(at, ",\"mode\":"), ab_row_mode_name((enum ab_row_mode)row->mode));
  at = put_name(row_json_put(at, ",\"phase\":"), ab_row_phase_name((enum ab_row_phase)row->phase));
  at = put_name(row_json_put(at, ",\"state\":"), ab_state_name((enum ab_state)row->state));
  if (row->waits_for.family == 4 || row->waits_for.family == 6)
    at = put_place(row_json_put(at, ",\"waits_for\":"), &row->waits_for);
  at = put_short(row_json_put(at, ",\"since\":"), here(row, beside));
  at = put_name(row_json_put(at, ",\"method\":"),
                ab_row_method_name((enum ab_row_method)row->method));
  at = put_text(row_json_put(at, ",\"path\":"), row->path, row->path_len, mark);
  if (row->peer.family == 4 || row->peer.family == 6)
    at = row_json_put_addr(row_json_put(at, ",\"client\":"), &row->peer);
  if (route.ptr) at = put_text(row_json_put(at, ",\"route\":"), route.ptr, route.len, mark);
  return row_json_put(at, "}");
}
