/* Engine.waiting: the app says what the request that runs here waits for in a block. On a loop each
 * wait of the block is meant; elsewhere, where waits are not seen, the whole block is. A request
 * that no loop knows is found by a holder, an object that its thread or fiber has: a pointer to
 * where the call stands, NULL without one. */
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_sight.h"
#include "rb/run/rb_clock.h"
#include "rb/scheduler/rb_scheduler.h"

/* --- holders --- */

static const rb_data_type_t holder_type = {
    .wrap_struct_name = "abaca holder of a request",
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

/* Not seen by Ruby code. */
static ID holder_name(void) {
  return rb_intern("__abaca_request__");
}

static void hold(VALUE owner, ab_call **place) {
  VALUE holder = rb_data_typed_object_wrap(rb_cObject, place, &holder_type);
  rb_ivar_set(owner, holder_name(), holder);
}

static void let_go(VALUE owner) {
  VALUE holder = rb_attr_get(owner, holder_name());
  if (!NIL_P(holder)) RTYPEDDATA_DATA(holder) = NULL;
}

void ab_waiting_on_thread(ab_call **place) {
  hold(rb_thread_current(), place);
}

void ab_waiting_on_fiber(ab_call **place) {
  hold(rb_fiber_current(), place);
}

void ab_waiting_off_thread(void) {
  let_go(rb_thread_current());
}

void ab_waiting_off_fiber(void) {
  let_go(rb_fiber_current());
}

static ab_call *held_by(VALUE owner) {
  VALUE holder = rb_attr_get(owner, holder_name());
  if (NIL_P(holder)) return NULL;
  ab_call **place = rb_check_typeddata(holder, &holder_type);
  return place ? *place : NULL;
}

ab_call *ab_waiting_call_here(void) {
  ab_call *call = held_by(rb_thread_current());
  if (!call) call = held_by(rb_fiber_current());
  return ab_call_own(call);
}

/* --- the block --- */

typedef struct waiting {
  VALUE scheduler; /* keeps the loop alive */
  ab_work *work;
  uint32_t serial;
  ab_call *call;
  unsigned generation;
  uint8_t before;
} waiting;

static VALUE yield_to_block(VALUE unused AB_UNUSED) {
  return rb_yield_values(0);
}

static VALUE end_on_loop(VALUE arg) {
  const waiting *w = (const waiting *)arg;
  if (w->work->serial == w->serial) w->work->said = w->before;
  return Qnil;
}

static VALUE begin_on_loop(waiting *w, enum ab_state state) {
  w->serial = w->work->serial;
  w->before = w->work->said;
  w->work->said = (uint8_t)state;
  VALUE result = rb_ensure(yield_to_block, Qnil, end_on_loop, (VALUE)w);
  RB_GC_GUARD(w->scheduler);
  return result;
}

static VALUE end_elsewhere(VALUE arg) {
  const waiting *w = (const waiting *)arg;
  if (ab_waiting_call_here() == w->call && w->call->generation == w->generation)
    ab_sight_say(w->call, w->before);
  return Qnil;
}

static VALUE begin_elsewhere(waiting *w, enum ab_state state) {
  w->generation = w->call->generation;
  w->before = w->call->said;
  ab_sight_say(w->call, (uint8_t)state);
  return rb_ensure(yield_to_block, Qnil, end_elsewhere, (VALUE)w);
}

/* What the app can say: the waits for others. */
static enum ab_state state_of(VALUE word) {
  if (SYMBOL_P(word)) {
    const char *name = rb_id2name(SYM2ID(word));
    for (enum ab_state state = AB_STATE_DB; state <= AB_STATE_REQUIRE; state++)
      if (strcmp(ab_state_name(state), name) == 0) return state;
  }
  rb_raise(
      rb_eArgError,
      "waiting: :db, :cache, :http, :io, :pool, :lock, :sleep, :dns, :disk, :process, :offload "
      "or :require is needed, not %+" PRIsVALUE,
      word);
}

/* call-seq: waiting(kind) { ... } -> Object */
static VALUE engine_waiting(VALUE self AB_UNUSED, VALUE kind) {
  enum ab_state state = state_of(kind);
  rb_need_block();
  waiting w = {.scheduler = rb_fiber_scheduler_get()};
  ab_loop *loop = NIL_P(w.scheduler) ? NULL : ab__loop_or_null(w.scheduler);
  if (loop && !ab__loop_forked(loop) && (w.work = ab_loop_work(loop)))
    return begin_on_loop(&w, state);
  if (!loop && (w.call = ab_waiting_call_here())) return begin_elsewhere(&w, state);
  return rb_yield_values(0);
}

/* call-seq: waiting_for(kind, io) { ... } -> Object
 *
 * For the hooks of another scheduler: the block is a wait of the current fiber, for a descriptor if
 * `io` is an IO. What the app has said comes first. */
typedef struct hook_wait {
  ab_call *call;
  unsigned generation;
  uint8_t before;
} hook_wait;

static VALUE hook_ended(VALUE arg) {
  const hook_wait *w = (const hook_wait *)arg;
  if (ab_waiting_call_here() == w->call && w->call->generation == w->generation)
    ab_sight_go_on(w->call, w->before);
  return Qnil;
}

static VALUE engine_waiting_for(VALUE self AB_UNUSED, VALUE kind, VALUE io) {
  hook_wait w = {.call = held_by(rb_fiber_current())};
  w.call = ab_call_own(w.call);
  if (!w.call || !w.call->row) return rb_yield_values(0);
  enum ab_state state = state_of(kind);
  ab_addr peer = {.family = 0};
  if (RB_TYPE_P(io, T_FILE)) {
    const ab_services *services = &ab_run_of(w.call->rack)->services;
    if (!ab_services_ask(services, rb_io_descriptor(io), &state, &peer)) state = AB_STATE_IO;
  }
  w.generation = w.call->generation;
  w.before = ab_sight_wait(w.call, state, &peer);
  return rb_ensure(yield_to_block, Qnil, hook_ended, (VALUE)&w);
}

void ab_init_waiting(VALUE cEngine) {
  rb_define_singleton_method(cEngine, "waiting", engine_waiting, 1);
  rb_define_singleton_method(cEngine, "waiting_for", engine_waiting_for, 2);
}
