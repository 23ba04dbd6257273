/* Abaca::Page::Slot: the requests of a worker, as its rows have them. */
#include "io/timer.h"
#include "page/look.h"
#include "page/crowd.h"
#include "page/row_json.h"
#include "rb/page/rb_page_parts.h"

/* What all rows of one look share. */
typedef struct view {
  ab_page_parts parts;
  ab_nsec now;
  bool waits;
  ab__state_symbols states;
  VALUE modes[AB_ROW_MODES], phases[AB_ROW_PHASES], methods[AB_ROW_METHOD_COUNT];
  VALUE routes[AB_PAGE_ROUTES]; /* 0: not made yet */
  ab_addr peer;                 /* what the last row waited for, */
  VALUE place;                  /* ... and its text */
} view;

static void view_init(view *view, VALUE slot, bool waits) {
  *view = (struct view){.parts = ab__slot_parts(slot), .now = ab_clock_monotonic(), .waits = waits};
  ab__state_symbols_init(&view->states);
  for (unsigned i = 0; i < AB_ROW_MODES; i++)
    view->modes[i] = ID2SYM(rb_intern(ab_row_mode_name((enum ab_row_mode)i)));
  for (unsigned i = 0; i < AB_ROW_PHASES; i++)
    view->phases[i] = ID2SYM(rb_intern(ab_row_phase_name((enum ab_row_phase)i)));
  for (unsigned i = 0; i < AB_ROW_METHOD_COUNT; i++)
    view->methods[i] = rb_interned_str_cstr(ab_row_method_name((enum ab_row_method)i));
}

/* --- one row --- */

static VALUE rows_route_of(view *view, uint32_t number) {
  if (number >= view->parts.route_count || number >= AB_PAGE_ROUTES) return Qnil;
  if (!view->routes[number]) view->routes[number] = ab__route_name(&view->parts, number);
  return view->routes[number];
}

/* Many wait for the same. */
static VALUE place_of(view *view, const ab_addr *peer) {
  if (!view->place || memcmp(&view->peer, peer, sizeof(*peer)) != 0) {
    view->peer = *peer;
    view->place = rb_obj_freeze(ab__addr_place(peer));
  }
  return view->place;
}

static VALUE sums_of(const view *view, const ab_row *row) {
  VALUE pairs[2 * AB_STATE_COUNT];
  long count = 0;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    if (!row->sums[i]) continue;
    pairs[count++] = view->states.of[i];
    pairs[count++] = ab__seconds(row->sums[i]);
  }
  VALUE hash = rb_hash_new();
  rb_hash_bulk_insert(count, pairs, hash);
  return hash;
}

static VALUE waits_of(const view *view, const ab_row *row) {
  ab_wait waits[AB_ROW_WAITS];
  unsigned count = ab_row_waits(row, waits);
  VALUE list = rb_ary_new_capa(count);
  for (unsigned i = 0; i < count; i++) {
    const ab_wait *wait = &waits[i];
    ab_addr peer = {.port = wait->port, .family = wait->family};
    memcpy(peer.bytes, wait->peer, sizeof(wait->peer));
    rb_ary_push(list, rb_ary_new_from_args(4, DBL2NUM(wait->at / 1e6), DBL2NUM(wait->time / 1e6),
                                           view->states.of[wait->state], ab__addr_place(&peer)));
  }
  return list;
}

static VALUE trace_of(const ab_row *row) {
  static const uint8_t none[sizeof(row->trace)];
  char text[2 * sizeof(row->trace) + 1];
  if (memcmp(row->trace, none, sizeof(none)) == 0) return Qnil;
  for (size_t i = 0; i < sizeof(row->trace); i++) snprintf(text + 2 * i, 3, "%02x", row->trace[i]);
  return rb_usascii_str_new(text, 2 * sizeof(row->trace));
}

static VALUE count_or_nil(uint32_t count) {
  return count ? UINT2NUM(count) : Qnil;
}

#define MOST_MEMBERS 24

typedef struct members {
  VALUE pairs[2 * MOST_MEMBERS];
  long count;
} members;

/* A literal name is looked up once. */
#define ROWS_PUT(members, name, value)                                                             \
  do {                                                                                             \
    (members)->pairs[(members)->count++] = ID2SYM(rb_intern(name));                                \
    (members)->pairs[(members)->count++] = (value);                                                \
  } while (0)

static void put_row(members *to, view *view, const ab_row *row) {
  ROWS_PUT(to, "id", ULL2NUM(row->id));
  ROWS_PUT(to, "age", ab__seconds(row->since > row->began ? row->since - row->began : 0));
  ROWS_PUT(to, "state", view->states.of[row->state]);
  ROWS_PUT(to, "mode", view->modes[row->mode]);
  ROWS_PUT(to, "phase", view->phases[row->phase]);
  ROWS_PUT(to, "method", view->methods[row->method]);
  ROWS_PUT(to, "path", rb_str_new(row->path, row->path_len));
  ROWS_PUT(to, "route", rows_route_of(view, row->route));
  ROWS_PUT(to, "peer", ab__addr_text(&row->peer));
  ROWS_PUT(to, "status", count_or_nil(row->status));
  ROWS_PUT(to, "place", UINT2NUM(row->place));
  ROWS_PUT(to, "children", UINT2NUM(row->children));
  ROWS_PUT(to, "sums", sums_of(view, row));
  ROWS_PUT(to, "trace", trace_of(row));
  if (row->cpu) ROWS_PUT(to, "cpu", DBL2NUM(row->cpu / 1e6));
  if (view->waits) ROWS_PUT(to, "waits", waits_of(view, row));
}

static VALUE to_hash(const members *members) {
  VALUE hash = rb_hash_new();
  rb_hash_bulk_insert(members->count, members->pairs, hash);
  return hash;
}

/* The time in its state now counts as well. */
static VALUE request_of(view *view, ab_row *row) {
  ab_nsec here = view->now > row->since ? view->now - row->since : 0;
  members members = {.count = 0};
  ROWS_PUT(&members, "since", ab__seconds(here));
  ROWS_PUT(&members, "waits_for", place_of(view, &row->waits_for));
  row->sums[row->state] += here;
  row->since += here;
  put_row(&members, view, row);
  return to_hash(&members);
}

/* --- those in flight --- */

/* call-seq: rows(most, waits) -> Array
 *
 * The oldest ones first, at most so many. */
static VALUE slot_rows(VALUE self, VALUE most, VALUE waits) {
  view view;
  size_t limit = NUM2SIZET(most);
  VALUE list = rb_ary_new(), buffer;
  view_init(&view, self, RTEST(waits));
  ab_page_view before = ab_page_look(view.parts.slot);
  if (!before.settled || !ab_page_is_live(before.state)) return list;
  size_t room = ab_row_found_most(&view.parts);
  ab_row_found *found = ALLOCV_N(ab_row_found, buffer, room + 1);
  size_t count = ab_row_find(found, room, &view.parts, 0);
  ab_row_sort(found, count);
  for (size_t i = 0; i < count && (size_t)RARRAY_LEN(list) < limit; i++) {
    ab_row row;
    if (ab_row_look(found[i].row, &row, view.waits)) rb_ary_push(list, request_of(&view, &row));
  }
  ALLOCV_END(buffer);
  /* Those of a process that has ended meanwhile are no more. */
  if (ab_page_look(view.parts.slot).claims != before.claims) rb_ary_clear(list);
  RB_GC_GUARD(self);
  return list;
}

static const ab_row *find_id(const ab_row *rows, uint32_t count, uint64_t id) {
  for (uint32_t i = 0; i < count; i++) {
    if (AB_GET(rows[i].used) && AB_GET(rows[i].id) == id) return &rows[i];
  }
  return NULL;
}

/* call-seq: request(id) -> Hash or nil
 *
 * One of them, with its waits. */
static VALUE slot_request(VALUE self, VALUE id) {
  view view;
  uint64_t number = NUM2ULL(id);
  view_init(&view, self, true);
  if (!ab_page_is_live(ab_page_look(view.parts.slot).state)) return Qnil;
  const ab_row *found = find_id(view.parts.rows, ab_page_rows_marked(&view.parts), number);
  if (!found) found = find_id(view.parts.queued, ab_page_queued_marked(&view.parts), number);
  ab_row row;
  bool there = found && ab_row_look(found, &row, true) && row.id == number;
  VALUE hash = there ? request_of(&view, &row) : Qnil;
  RB_GC_GUARD(self);
  return hash;
}

/* call-seq: states -> Hash
 *
 * How many requests are in each state: without a Hash for each of them. */
static VALUE slot_states(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  ab_page_view view = ab_page_look(parts.slot);
  VALUE hash = rb_hash_new();
  if (!view.settled || !ab_page_is_live(view.state)) return hash;
  ab_page_states states = ab_page_states_of(&parts);
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    if (states.now[i])
      rb_hash_aset(hash, ab__state_symbol((enum ab_state)i), UINT2NUM(states.now[i]));
  }
  return hash;
}

/* --- those in flight, counted --- */

static VALUE counts_of(const ab_crowd *crowd) {
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    if (crowd->now[i])
      rb_hash_aset(hash, ab__state_symbol((enum ab_state)i), UINT2NUM(crowd->now[i]));
  }
  return hash;
}

static VALUE reasons_to_wait(const ab_crowd *crowd) {
  VALUE list = rb_ary_new_capa(crowd->wait_count);
  for (uint32_t i = 0; i < crowd->wait_count; i++) {
    const ab_crowd_wait *wait = &crowd->waits[i];
    rb_ary_push(list, rb_ary_new_from_args(4, ab__state_symbol((enum ab_state)wait->state),
                                           ab__addr_place(&wait->peer), UINT2NUM(wait->count),
                                           ab__seconds(wait->longest)));
  }
  return list;
}

/* call-seq: tally -> Hash */
static VALUE slot_tally(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  ab_crowd crowd;
  ab_page_crowd(&parts, ab_clock_monotonic(), &crowd);
  VALUE hash = rb_hash_new();
  rb_hash_aset(hash, ID2SYM(rb_intern("states")), counts_of(&crowd));
  rb_hash_aset(hash, ID2SYM(rb_intern("sums")), ab__state_sums(crowd.sums));
  rb_hash_aset(hash, ID2SYM(rb_intern("waits")), reasons_to_wait(&crowd));
  RB_GC_GUARD(self);
  return hash;
}

/* --- those that were kept --- */

static VALUE reasons_of(const ab_row *row) {
  VALUE list = rb_ary_new();
  if (row->reason & AB_KEPT_SLOW) rb_ary_push(list, ID2SYM(rb_intern("slow")));
  if (row->reason & AB_KEPT_FAILED) rb_ary_push(list, ID2SYM(rb_intern("failed")));
  if (row->reason & AB_KEPT_SAMPLED) rb_ary_push(list, ID2SYM(rb_intern("sampled")));
  return list;
}

static VALUE kept_of(view *view, const ab_row *row, ab_nsec offset) {
  members members = {.count = 0};
  ROWS_PUT(&members, "number", ULL2NUM(row->number));
  ROWS_PUT(&members, "ended_at", ab__time(row->since, offset));
  ROWS_PUT(&members, "reasons", reasons_of(row));
  ROWS_PUT(&members, "end", ID2SYM(rb_intern(ab_row_end_name((enum ab_row_end)row->end))));
  put_row(&members, view, row);
  return to_hash(&members);
}

/* call-seq: kept -> Array
 *
 * The newest first, with their waits. */
static VALUE slot_kept(VALUE self) {
  view view;
  view_init(&view, self, true);
  ab_nsec offset = ab__clock_offset(self);
  uint64_t next = ab_kept_next(&view.parts.slot->app.kept);
  VALUE list = rb_ary_new();
  for (uint64_t i = 0; i < view.parts.kept_count && i < next; i++) {
    ab_row row;
    if (ab_kept_load(view.parts.kept, view.parts.kept_count, next - 1 - i, &row))
      rb_ary_push(list, kept_of(&view, &row, offset));
  }
  RB_GC_GUARD(self);
  return list;
}

void ab__init_rows(VALUE cSlot) {
  rb_define_private_method(cSlot, "rows", slot_rows, 2);
  rb_define_method(cSlot, "request", slot_request, 1);
  rb_define_method(cSlot, "states", slot_states, 0);
  rb_define_method(cSlot, "tally", slot_tally, 0);
  rb_define_method(cSlot, "kept", slot_kept, 0);
}
