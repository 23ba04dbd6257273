/* Abaca::Page::Slot: loops, routes, events and clients. */
#include "io/timer.h"
#include "page/look.h"
#include "rb/page/rb_page_parts.h"

static void areas_put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* --- loops --- */

static VALUE loop_sums(const ab_loop_line *line) {
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_LOOP_STATE_COUNT; i++)
    areas_put(hash, ab_loop_state_name((enum ab_loop_state)i), ab__seconds(AB_GET(line->sums[i])));
  return hash;
}

static VALUE row_on(const ab_page_parts *parts, uint32_t index) {
  ab_row row;
  if (index >= parts->row_count || !ab_row_look(&parts->rows[index], &row, false)) return Qnil;
  return ULL2NUM(row.id);
}

/* A loop that does not come back cannot say so: its age tells. */
static enum ab_loop_state state_now(const ab_loop_line *line, ab_nsec here, ab_nsec stall_after) {
  /* While a thread of the pool computes, others go on. */
  bool stalls = line->state == AB_LOOP_STATE_BUSY && line->kind != AB_LOOP_THREAD && stall_after &&
                here >= stall_after;
  return stalls ? AB_LOOP_STATE_STALLED : (enum ab_loop_state)line->state;
}

static VALUE loop_of(const ab_page_parts *parts, uint32_t index, const ab_loop_line *line,
                     ab_nsec now) {
  static const char *const kinds[AB_LOOP_KINDS] = {"main", "spare", "thread", "guest"};
  VALUE hash = rb_hash_new();
  ab_nsec here = now > line->since ? now - line->since : 0;
  enum ab_loop_state state = state_now(line, here, AB_GET(parts->slot->process.stall_after));
  areas_put(hash, "index", UINT2NUM(index));
  areas_put(hash, "kind", ID2SYM(rb_intern(kinds[line->kind])));
  areas_put(hash, "state", ID2SYM(rb_intern(ab_loop_state_name(state))));
  areas_put(hash, "since", ab__seconds(here));
  areas_put(hash, "request", row_on(parts, line->row));
  areas_put(hash, "tid", UINT2NUM(line->tid));
  areas_put(hash, "ticks", ULL2NUM(line->tick));
  areas_put(hash, "sums", loop_sums(line));
  return hash;
}

/* call-seq: loops -> Array
 *
 * A line that makes no sense, or is written all the time, is left out. */
static VALUE slot_loops(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  ab_nsec now = ab_clock_monotonic();
  bool live = ab_page_is_live(ab_page_look(parts.slot).state);
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; live && i < parts.loop_count; i++) {
    ab_loop_line line;
    if (ab_loop_line_load(&parts.loops[i], &line))
      rb_ary_push(list, loop_of(&parts, i, &line, now));
  }
  RB_GC_GUARD(self);
  return list;
}

/* call-seq: loop_sums -> Hash
 *
 * Of all that have had the slot. */
static VALUE slot_loop_sums(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  ab_loop_line all = {.seq = 0};
  for (uint32_t i = 0; i < parts.loop_count; i++) {
    for (unsigned j = 0; j < AB_LOOP_STATE_COUNT; j++)
      all.sums[j] += AB_GET(parts.loops[i].sums[j]);
  }
  RB_GC_GUARD(self);
  return loop_sums(&all);
}

/* --- routes --- */

static VALUE areas_route_of(const ab_page_parts *parts, uint32_t number) {
  const ab_page_route *route = &parts->routes[number];
  VALUE hash = rb_hash_new();
  areas_put(hash, "route", ab__route_name(parts, number));
  areas_put(hash, "requests", ULL2NUM(AB_GET(route->requests)));
  areas_put(hash, "errors", ULL2NUM(AB_GET(route->errors)));
  areas_put(hash, "stalls", ULL2NUM(AB_GET(route->stalls)));
  areas_put(hash, "stall_time", ab__seconds(AB_GET(route->stall_time)));
  areas_put(hash, "sums", ab__state_sums(route->sums));
  return hash;
}

/* call-seq: routes -> Array */
static VALUE slot_routes(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  uint32_t used = ab_page_routes_used(&parts.slot->app.routes, parts.route_count);
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; i < used; i++) rb_ary_push(list, areas_route_of(&parts, i));
  uint32_t other = parts.route_count - 1;
  if (parts.route_count && AB_GET(parts.routes[other].requests))
    rb_ary_push(list, areas_route_of(&parts, other));
  RB_GC_GUARD(self);
  return list;
}

/* --- events --- */

static VALUE event_of(const ab_page_event *event, uint64_t number, ab_nsec offset) {
  VALUE hash = rb_hash_new();
  const char *kind = ab_page_event_kind_name((enum ab_page_event_kind)event->kind);
  areas_put(hash, "number", ULL2NUM(number));
  areas_put(hash, "kind", ID2SYM(rb_intern(kind)));
  areas_put(hash, "at", ab__time(event->when, offset));
  areas_put(hash, "request", event->id ? ULL2NUM(event->id) : Qnil);
  ab_nsec time = event->time & ~AB_PAGE_EVENT_LASTS;
  areas_put(hash, "time", time ? ab__seconds(time) : Qnil);
  if (time != event->time) areas_put(hash, "lasts", Qtrue);
  if (event->computed) areas_put(hash, "computed", ab__seconds(event->computed));
  areas_put(hash, "pid", UINT2NUM(event->pid));
  areas_put(hash, "status", event->status ? UINT2NUM(event->status) : Qnil);
  areas_put(hash, "text", rb_utf8_str_new(event->text, event->text_len));
  return hash;
}

/* call-seq: events -> Array
 *
 * The newest first. A number that is missing was overwritten, or never finished. */
static VALUE slot_events(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  ab_nsec offset = ab__clock_offset(self);
  uint64_t next = AB_GET(parts.slot->events);
  VALUE list = rb_ary_new();
  for (uint64_t i = 0; i < parts.event_count && i < next; i++) {
    ab_page_event event;
    if (ab_page_event_load(parts.events, parts.event_count, next - 1 - i, &event))
      rb_ary_push(list, event_of(&event, next - 1 - i, offset));
  }
  RB_GC_GUARD(self);
  return list;
}

static enum ab_page_event_kind areas_kind_of(VALUE name) {
  for (unsigned i = 0; i < AB_PAGE_EVENT_KIND_COUNT; i++) {
    const char *kind = ab_page_event_kind_name((enum ab_page_event_kind)i);
    if (name == ID2SYM(rb_intern(kind))) return (enum ab_page_event_kind)i;
  }
  rb_raise(rb_eArgError, "%+" PRIsVALUE " is no kind of event", name);
}

/* Anything that is no time is none. */
static ab_nsec time_of(VALUE seconds) {
  double time = NUM2DBL(seconds);
  return time > 0 && time < 1e9 ? (ab_nsec)(time * (double)AB_NSEC_PER_SEC) : 0;
}

/* call-seq: write_event(kind, text, pid, request, time, status, lasts) -> Integer
 *
 * Returns its number. What lasts has begun that time ago. */
static VALUE slot_write_event(VALUE self, VALUE kind, VALUE text, VALUE pid, VALUE request,
                              VALUE time, VALUE status, VALUE lasts) {
  StringValue(text);
  ab_page_event facts = {
      .when = ab_clock_monotonic(),
      .kind = (uint8_t)areas_kind_of(kind),
      .pid = NUM2UINT(pid),
      .id = NUM2ULL(request),
      .time = time_of(time),
      .status = (uint16_t)NUM2UINT(status),
  };
  if (RTEST(lasts)) {
    facts.when -= facts.time < facts.when ? facts.time : facts.when;
    facts.time |= AB_PAGE_EVENT_LASTS;
  }
  ab__slot_check_writable(self);
  ab_page_parts parts = ab_page_parts_of(ab__slot_page(self), ab_slot_index(self));
  uint64_t number =
      ab_page_event_write(parts.events, parts.event_count, &parts.slot->events, &facts,
                          (ab_view){RSTRING_PTR(text), (size_t)RSTRING_LEN(text)});
  RB_GC_GUARD(text);
  return ULL2NUM(number);
}

/* call-seq: end_event(number, seconds, computed) -> nil */
static VALUE slot_end_event(VALUE self, VALUE number, VALUE seconds, VALUE computed) {
  uint64_t n = NUM2ULL(number);
  ab_nsec time = time_of(seconds), used = time_of(computed);
  ab__slot_check_writable(self);
  ab_page_parts parts = ab_page_parts_of(ab__slot_page(self), ab_slot_index(self));
  ab_page_event_end(parts.events, parts.event_count, n, time, used);
  return Qnil;
}

/* --- clients --- */

static VALUE client_of(const ab_page_client *client) {
  VALUE hash = rb_hash_new();
  areas_put(hash, "address", ab__addr_text(&client->addr));
  areas_put(hash, "requests", ULL2NUM(client->requests));
  areas_put(hash, "over", ULL2NUM(client->over));
  areas_put(hash, "bytes", ULL2NUM(client->bytes));
  areas_put(hash, "open", UINT2NUM(client->open));
  areas_put(hash, "slow", UINT2NUM(client->slow));
  areas_put(hash, "errors", UINT2NUM(client->errors));
  return hash;
}

/* call-seq: clients -> Array */
static VALUE slot_clients(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; i < parts.client_count; i++) {
    ab_page_client client;
    if (ab_page_client_load(&parts.clients[i], &client)) rb_ary_push(list, client_of(&client));
  }
  RB_GC_GUARD(self);
  return list;
}

/* --- restarts --- */

static const char *const restarts[] = {
#define RESTART_TEXT(name, text) text,
    AB_PAGE_RESTARTS(RESTART_TEXT)
#undef RESTART_TEXT
};

/* call-seq: restarts -> Hash
 *
 * By reason: processes of the slot that were, or are to be, followed by others. */
static VALUE slot_restarts(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_PAGE_RESTART_COUNT; i++)
    areas_put(hash, restarts[i], ULL2NUM(AB_GET(parts.slot->restarts[i])));
  RB_GC_GUARD(self);
  return hash;
}

/* call-seq: count_restart(reason) -> nil
 *
 * By the page's creator. Raises ArgumentError for another reason. */
static VALUE slot_count_restart(VALUE self, VALUE reason) {
  unsigned i = 0;
  while (i < AB_PAGE_RESTART_COUNT && reason != ID2SYM(rb_intern(restarts[i]))) i++;
  if (i == AB_PAGE_RESTART_COUNT)
    rb_raise(rb_eArgError, "%+" PRIsVALUE " is no reason of a restart", reason);
  ab__slot_check_writable(self);
  ab_page_slot *slot = ab_page_slot_of(ab__slot_page(self), ab_slot_index(self));
  AB_ADD(slot->restarts[i], 1);
  RB_GC_GUARD(self);
  return Qnil;
}

/* --- the process as a whole --- */

/* call-seq: totals -> Hash */
static VALUE slot_totals(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  const ab_page_app *app = &parts.slot->app;
  const ab_page_process *process = &parts.slot->process;
  VALUE hash = rb_hash_new();
  areas_put(hash, "ended", ULL2NUM(AB_GET(app->ended)));
  areas_put(hash, "failed", ULL2NUM(AB_GET(app->failed)));
  areas_put(hash, "stalls", ULL2NUM(AB_GET(app->stalls)));
  areas_put(hash, "stall_time", ab__seconds(AB_GET(app->stall_time)));
  areas_put(hash, "sums", ab__state_sums(app->sums));
  areas_put(hash, "kept", ULL2NUM(ab_kept_next(&app->kept)));
  areas_put(hash, "events", ULL2NUM(AB_GET(parts.slot->events)));
  areas_put(hash, "rows_missed", ULL2NUM(AB_GET(app->missed) + AB_GET(parts.slot->queue.missed)));
  areas_put(hash, "routes_dropped", ULL2NUM(AB_GET(app->routes_dropped)));
  areas_put(hash, "series_dropped", ULL2NUM(AB_GET(app->series_dropped)));
  areas_put(hash, "pools_dropped", ULL2NUM(AB_GET(app->pools_dropped)));
  areas_put(hash, "gc_time", ab__seconds(AB_GET(process->gc_time)));
  areas_put(hash, "gc_minor", ULL2NUM(AB_GET(process->gc_minor)));
  areas_put(hash, "gc_major", ULL2NUM(AB_GET(process->gc_major)));
  areas_put(hash, "loops", slot_loop_sums(self));
  return hash;
}

/* call-seq: process -> Hash */
static VALUE slot_process(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  const ab_page_process *process = &parts.slot->process;
  VALUE hash = rb_hash_new();
  areas_put(hash, "cpu", ab__seconds(AB_GET(process->cpu)));
  areas_put(hash, "rss", UINT2NUM(AB_GET(process->rss)));
  areas_put(hash, "fibers", UINT2NUM(AB_GET(process->fibers)));
  areas_put(hash, "fibers_most", UINT2NUM(AB_GET(process->fibers_most)));
  areas_put(hash, "threads", UINT2NUM(AB_GET(process->threads)));
  areas_put(hash, "threads_most", UINT2NUM(AB_GET(process->threads_most)));
  areas_put(hash, "offloads", UINT2NUM(AB_GET(process->offloads)));
  areas_put(hash, "stall_after", ab__seconds(AB_GET(process->stall_after)));
  uint32_t places = AB_GET(process->places), queue = AB_GET(process->queue_most);
  areas_put(hash, "places", places ? UINT2NUM(places) : Qnil);
  areas_put(hash, "queue_most", places && queue != UINT32_MAX ? UINT2NUM(queue) : Qnil);
  return hash;
}

void ab__init_areas(VALUE cSlot) {
  rb_define_method(cSlot, "loops", slot_loops, 0);
  rb_define_method(cSlot, "routes", slot_routes, 0);
  rb_define_method(cSlot, "events", slot_events, 0);
  rb_define_private_method(cSlot, "write_event", slot_write_event, 7);
  rb_define_method(cSlot, "end_event", slot_end_event, 3);
  rb_define_method(cSlot, "clients", slot_clients, 0);
  rb_define_method(cSlot, "restarts", slot_restarts, 0);
  rb_define_method(cSlot, "count_restart", slot_count_restart, 1);
  rb_define_method(cSlot, "totals", slot_totals, 0);
  rb_define_method(cSlot, "process", slot_process, 0);
}
