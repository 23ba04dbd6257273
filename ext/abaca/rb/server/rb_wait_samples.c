/* Abaca::WaitSamples: where requests wait, by stack, route and state. Nothing is noted while no
 * profile runs. A look goes through the requests in the application: what has passed since the last
 * look is charged to the wait that each is in. A wait is described once, by the backtrace of its
 * fiber or thread, and known again by the row of its request, which has the time when it began.
 *
 * A look describes as many new waits as it can in a millisecond, chosen by chance: they stand for
 * all new ones. So a look costs the same with any number of requests that wait. */
#include "rb/server/rb_server.h"

#include "rb/rack/rb_label.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_sight.h"
#include "rb/run/rb_stall_samples.h"
#include "rb/run/rb_turn.h"
#include "rb/scheduler/rb_scheduler.h"

/* Time of a look for descriptions, and how many waits are chosen for one. */
#define BUDGET AB_NSEC_PER_MS
#define CHOSEN 64
/* Distinct stacks; more of them are counted together, by state. */
#define MOST 500
/* Frames of a stack, the innermost ones. */
#define DEEPEST 100

/* The numbers of stacks begin behind those that stand for all others of a state. */
#define FIRST AB_STATE_COUNT

/* A row's last wait that was described; or how long its request had run, at the last look. */
typedef struct known {
  uint64_t id; /* of the request, from 1; 0: none */
  ab_nsec since, run;
  uint32_t stack;
} known;

typedef struct wait_samples {
  VALUE engine;
  VALUE numbers; /* Hash: String that has all of a stack => its number */
  VALUE stacks;  /* Array of [label, state, backtrace], in the order of their numbers */
  known *rows;   /* one for each row */
  size_t row_count;
  struct {
    double time; /* nanoseconds */
    uint64_t times;
  } sums[FIRST + MOST];
  ab_nsec looked; /* last; 0: not yet */
  uint64_t looks;
  uint64_t random;
} wait_samples;

/* A wait that is chosen. Its call is found by the handle: the request may end meanwhile. */
typedef struct chosen {
  VALUE handle;
  uint64_t id;
  ab_nsec since;
  size_t row;
  uint32_t state;
  bool fixed;  /* the row tells when the wait ends */
  ab_nsec run; /* of one that runs: for so long since the last look */
} chosen;

typedef struct look {
  wait_samples *samples;
  ab_rack *rack;
  ab_nsec passed; /* since the last look */
  size_t fresh;   /* waits that are not described yet */
  size_t count;   /* chosen */
  chosen list[CHOSEN];
} look;

/* --- the object --- */

static void samples_mark(void *ptr) {
  const wait_samples *samples = ptr;
  rb_gc_mark(samples->engine);
  rb_gc_mark(samples->numbers);
  rb_gc_mark(samples->stacks);
}

static void samples_free(void *ptr) {
  wait_samples *samples = ptr;
  xfree(samples->rows);
  xfree(samples);
}

static size_t samples_size(const void *ptr) {
  const wait_samples *samples = ptr;
  return sizeof(*samples) + samples->row_count * sizeof(known);
}

static const rb_data_type_t samples_type = {
    .wrap_struct_name = "Abaca::WaitSamples",
    .function = {.dmark = samples_mark, .dfree = samples_free, .dsize = samples_size},
};

static VALUE samples_alloc(VALUE klass) {
  wait_samples *samples;
  VALUE self = TypedData_Make_Struct(klass, wait_samples, &samples_type, samples);
  samples->engine = samples->numbers = samples->stacks = Qnil;
  samples->random = ab_clock_monotonic() | 1;
  return self;
}

static wait_samples *samples_of(VALUE self) {
  wait_samples *samples = rb_check_typeddata(self, &samples_type);
  if (NIL_P(samples->engine)) rb_raise(rb_eRuntimeError, "not initialized");
  return samples;
}

/* call-seq: new(engine)
 *
 * Of the requests of an Engine, which has a slot, or nothing is known of them. */
static VALUE samples_initialize(VALUE self, VALUE engine) {
  wait_samples *samples = rb_check_typeddata(self, &samples_type);
  ab_server_of(engine);
  samples->engine = engine;
  samples->numbers = rb_hash_new();
  samples->stacks = rb_ary_new();
  return self;
}

/* --- which waits --- */

/* Requests that run, or have not begun, wait for nothing. */
static bool is_wait(enum ab_state state) {
  switch (state) {
  case AB_STATE_PROXY:
  case AB_STATE_HEAD:
  case AB_STATE_QUEUE:
  case AB_STATE_RUN:
  case AB_STATE_GC:
    return false;
  default:
    return true;
  }
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
static bool sleeps_unseen(const ab_call *call AB_UNUSED) {
  return false;
}
#else
/* Ruby 3.1 does not tell that a thread has begun to wait: its row says that it runs. */
static bool sleeps_unseen(const ab_call *call) {
  if (call->runner->executor->mode != AB_MODE_THREAD) return false;
  VALUE status = rb_funcall(call->runner->thread, rb_intern("status"), 0);
  return RB_TYPE_P(status, T_STRING) && rb_str_cmp(status, rb_str_new_cstr("sleep")) == 0;
}
#endif

/* What the request waits for now; false: nothing. */
static bool find_wait(const look *look, const ab_call *call, chosen *wait) {
  const ab_row *row = call->row, *rows = look->rack->sight->parts.rows;
  if (!row || call->over || NIL_P(call->handle) || row < rows ||
      row >= rows + look->samples->row_count)
    return false;
  enum ab_state state = ab_row_state(row);
  *wait = (chosen){.handle = call->handle,
                   .id = call->id,
                   .since = AB_GET(row->since),
                   .row = (size_t)(row - rows),
                   .fixed = true};
  wait->state = (uint32_t)state;
  if (is_wait(state)) return true;
  if (state != AB_STATE_RUN || !sleeps_unseen(call)) return false;
  wait->state = AB_STATE_IO;
  wait->fixed = false;
  return true;
}

static uint64_t below(wait_samples *samples, uint64_t limit) {
  samples->random ^= samples->random << 13;
  samples->random ^= samples->random >> 7;
  samples->random ^= samples->random << 17;
  return samples->random % limit;
}

/* Each of those that have come so far has the same chance. */
static void choose(look *look, const chosen *wait) {
  look->fresh++;
  if (look->count < CHOSEN) {
    look->list[look->count++] = *wait;
    return;
  }
  uint64_t place = below(look->samples, look->fresh);
  if (place < CHOSEN) look->list[place] = *wait;
}

static void charge(wait_samples *samples, uint32_t stack, double time) {
  samples->sums[stack].time += time;
  samples->sums[stack].times++;
}

static void go_through(look *look) {
  const ab_list *calls = &look->rack->calls;
  for (const ab_list *node = calls->next; node != calls; node = node->next) {
    chosen wait;
    if (!find_wait(look, AB_CONTAINER_OF(node, ab_call, link), &wait)) continue;
    const known *row = &look->samples->rows[wait.row];
    if (wait.fixed && row->id == wait.id && row->since == wait.since)
      charge(look->samples, row->stack, (double)look->passed);
    else
      choose(look, &wait);
  }
}

/* --- where they wait --- */

/* The fiber or thread that waits. */
static VALUE waiter_of(const ab_call *call) {
  if (call->runner->executor->mode == AB_MODE_THREAD) return call->runner->thread;
  const ab_loop *loop = ab_driver_of(call->runner)->loop;
  VALUE fiber = loop ? ab_loop_waiting(loop, call->fiber) : Qnil;
  return NIL_P(fiber) ? call->fiber : fiber;
}

/* The stack that the backtrace is, or the one that stands for others of its state. */
static uint32_t number_of(wait_samples *samples, VALUE label, uint32_t state, VALUE backtrace) {
  VALUE name = rb_str_new_cstr(ab_state_name((enum ab_state)state));
  VALUE key = rb_ary_join(backtrace, rb_str_new_cstr("\n"));
  rb_str_cat_cstr(key, "\n");
  rb_str_buf_append(key, label);
  rb_str_cat_cstr(key, "\n");
  rb_str_buf_append(key, name);
  VALUE number = rb_hash_lookup(samples->numbers, key);
  if (!NIL_P(number)) return NUM2UINT(number);
  long count = RARRAY_LEN(samples->stacks);
  if (count >= MOST) return state;
  rb_ary_push(samples->stacks,
              rb_ary_new_from_args(3, label, ID2SYM(rb_intern_str(name)), backtrace));
  rb_hash_aset(samples->numbers, key, LONG2NUM(FIRST + count));
  return (uint32_t)(FIRST + count);
}

/* Its request may have gone on by now: then the backtrace is of something else. */
static bool still_waits(const look *look, const chosen *wait) {
  const ab_call *call = ab_call_or_null(wait->handle);
  chosen now;
  return call && find_wait(look, call, &now) && now.since == wait->since && now.row == wait->row;
}

/* Returns whether it could be described. */
static bool samples_describe(look *look, const chosen *wait, uint32_t *stack) {
  const ab_call *call = ab_call_or_null(wait->handle);
  if (!call) return false;
  volatile VALUE label = ab_label_of(call), waiter = waiter_of(call);
  VALUE backtrace = rb_funcall(waiter, rb_intern("backtrace"), 2, INT2FIX(0), INT2FIX(DEEPEST));
  if (!RB_TYPE_P(backtrace, T_ARRAY) || !still_waits(look, wait)) return false;
  *stack = number_of(look->samples, label, wait->state, backtrace);
  if (wait->fixed)
    look->samples->rows[wait->row] = (known){.id = wait->id, .since = wait->since, .stack = *stack};
  return true;
}

/* What could not be described is charged to its state. */
static void charge_fresh(look *look) {
  uint32_t stacks[CHOSEN];
  size_t count = 0;
  ab_nsec until = ab_clock_monotonic() + BUDGET;
  for (size_t i = 0; i < look->count; i++) {
    if (i > 0 && ab_clock_monotonic() >= until) break;
    if (samples_describe(look, &look->list[i], &stacks[count])) count++;
  }
  double all = (double)look->passed * (double)look->fresh;
  for (size_t i = 0; i < count; i++) charge(look->samples, stacks[i], all / (double)count);
  if (count == 0 && look->count > 0) charge(look->samples, look->list[0].state, all);
}

/* --- requests that run --- */

/* How long it has run since the last look. */
static ab_nsec time_of_run(look *look, const ab_call *call, chosen *run) {
  const ab_row *row = call->row, *rows = look->rack->sight->parts.rows;
  if (!row || call->over || NIL_P(call->handle) || row < rows ||
      row >= rows + look->samples->row_count)
    return 0;
  known *known = &look->samples->rows[row - rows];
  ab_nsec total = AB_GET(row->sums[AB_STATE_RUN]), since = AB_GET(row->since),
          now = look->samples->looked;
  if (ab_row_state(row) == AB_STATE_RUN && now > since) total += now - since;
  ab_nsec before = known->id == call->id ? known->run : 0;
  known->id = call->id;
  known->run = total;
  *run =
      (chosen){.handle = call->handle, .id = call->id, .run = total > before ? total - before : 0};
  return run->run;
}

/* Those that no loop of ours runs, of which the standby takes no samples. */
static void find_runs(look *look, ab_nsec after) {
  const ab_list *calls = &look->rack->calls;
  for (const ab_list *node = calls->next; node != calls; node = node->next) {
    const ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    chosen run;
    if (ab_driver_of(call->runner)->loop || time_of_run(look, call, &run) < after) continue;
    if (look->passed > 0 && look->count < CHOSEN) look->list[look->count++] = run;
  }
}

static void charge_run(const look *look, const chosen *run) {
  const ab_call *call = ab_call_or_null(run->handle);
  if (!call) return;
  volatile VALUE label = ab_label_of(call), thread = call->runner->thread;
  VALUE backtrace = rb_funcall(thread, rb_intern("backtrace"), 2, INT2FIX(0), INT2FIX(DEEPEST));
  if (!RB_TYPE_P(backtrace, T_ARRAY)) return;
  charge(look->samples, number_of(look->samples, label, AB_STATE_RUN, backtrace), (double)run->run);
}

/* --- a look --- */

static void make_rows(wait_samples *samples, const ab_sight *sight) {
  if (samples->rows) return;
  samples->rows = ZALLOC_N(known, sight->parts.row_count);
  samples->row_count = sight->parts.row_count;
}

/* False: there is nothing to look at. */
static bool begin_look(VALUE self, look *look) {
  wait_samples *samples = samples_of(self);
  ab_server *server = ab_server_own_or_null(samples->engine);
  if (!server || !server->running || !server->run.rack.sight) return false;
  make_rows(samples, server->run.rack.sight);
  ab_nsec now = ab_clock_monotonic();
  *look = (struct look){.samples = samples, .rack = &server->run.rack};
  look->passed = samples->looked ? now - samples->looked : 0;
  samples->looked = now;
  samples->looks++;
  return true;
}

/* call-seq: look -> true or false
 *
 * Charges what has passed since the last look; the first one charges nothing. False: there is
 * nothing to look at, since the server does not run, or has no slot. */
static VALUE samples_look(VALUE self) {
  look look;
  if (!begin_look(self, &look)) return Qfalse;
  go_through(&look);
  charge_fresh(&look);
  return Qtrue;
}

/* call-seq: look_at_runs(after) -> true or false
 *
 * The same of requests on threads, or under another scheduler, that run: charges those that have
 * run for `after` seconds or more since the last look. */
static VALUE samples_look_at_runs(VALUE self, VALUE after) {
  double seconds = NUM2DBL(after);
  look look;
  if (!begin_look(self, &look)) return Qfalse;
  find_runs(&look, (ab_nsec)(seconds * (double)AB_NSEC_PER_SEC));
  for (size_t i = 0; i < look.count; i++) charge_run(&look, &look.list[i]);
  return Qtrue;
}

static VALUE row(const wait_samples *samples, uint32_t number, VALUE stack) {
  VALUE time = ab_float_seconds((ab_nsec)samples->sums[number].time);
  VALUE times = ULL2NUM(samples->sums[number].times);
  return rb_ary_new_from_args(5, rb_ary_entry(stack, 0), rb_ary_entry(stack, 1),
                              rb_ary_entry(stack, 2), time, times);
}

/* call-seq: to_a -> [[label, state, backtrace, seconds, samples], ...]
 *
 * The label is that of the route. What had no place has neither label nor backtrace. */
static VALUE samples_to_a(VALUE self) {
  const wait_samples *samples = samples_of(self);
  VALUE all = rb_ary_new();
  for (uint32_t state = 0; state < FIRST; state++) {
    if (samples->sums[state].times == 0) continue;
    VALUE name = ID2SYM(rb_intern(ab_state_name((enum ab_state)state)));
    rb_ary_push(all, row(samples, state, rb_ary_new_from_args(3, Qnil, name, Qnil)));
  }
  for (long i = 0; i < RARRAY_LEN(samples->stacks); i++) {
    VALUE stack = RARRAY_AREF(samples->stacks, i);
    rb_ary_push(all, row(samples, (uint32_t)(FIRST + i), stack));
  }
  return all;
}

/* call-seq: looks -> Integer */
static VALUE samples_looks(VALUE self) {
  return ULL2NUM(samples_of(self)->looks);
}

/* --- stalls --- */

/* call-seq: profile_stalls = true or false
 *
 * Samples of loops that are kept are counted for #stall_samples from now on, which is empty then.
 */
static VALUE server_profile_stalls(VALUE self, VALUE on) {
  ab_stalls *stalls = &ab_server_own(self)->run.stalls;
  if (RTEST(on)) ab_stall_samples_clear(&stalls->asked);
  stalls->profiled = RTEST(on);
  return on;
}

/* call-seq: stall_samples(kept) -> [[label, backtrace, seconds, samples], ...]
 *
 * Where requests have kept their loops since the run began, or since profile_stalls. The last row
 * is for what had no place. */
static VALUE server_stall_samples(VALUE self, VALUE kept) {
  const ab_stalls *stalls = &ab_server_own(self)->run.stalls;
  return ab_stall_samples_to_a(RTEST(kept) ? &stalls->kept : &stalls->asked);
}

/* call-seq: tell_stalls
 *
 * What is known of loops that are kept is logged now, and not when one of them turns. */
static VALUE server_tell_stalls(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  if (server && server->running) ab_turn_log_stalls(&server->run.stalls);
  return Qnil;
}

/* --- single requests --- */

/* call-seq: backtraces(ids) -> {id => [line, ...]}
 *
 * Where the requests in the application are that have these ids. The keys of a Hash are looked up
 * before Ruby code may run. */
static VALUE server_backtraces(VALUE self, VALUE ids) {
  ab_server *server = ab_server_own_or_null(self);
  VALUE wanted = rb_hash_new(), found = rb_ary_new(), result = rb_hash_new();
  Check_Type(ids, T_ARRAY);
  for (long i = 0; i < RARRAY_LEN(ids); i++)
    rb_hash_aset(wanted, ULL2NUM(NUM2ULL(RARRAY_AREF(ids, i))), Qtrue);
  if (!server) return result;
  const ab_list *calls = &server->run.rack.calls;
  for (const ab_list *node = calls->next; node != calls; node = node->next) {
    const ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (!NIL_P(call->handle) && RTEST(rb_hash_lookup(wanted, ULL2NUM(call->id))))
      rb_ary_push(found, call->handle);
  }
  for (long i = 0; i < RARRAY_LEN(found); i++) {
    const ab_call *call = ab_call_or_null(RARRAY_AREF(found, i));
    if (!call) continue;
    VALUE id = ULL2NUM(call->id), waiter = waiter_of(call);
    VALUE lines = rb_funcall(waiter, rb_intern("backtrace"), 2, INT2FIX(0), INT2FIX(DEEPEST));
    if (!NIL_P(lines)) rb_hash_aset(result, id, lines);
  }
  return result;
}

void ab_init_samples(VALUE mAbaca, VALUE cEngine) {
  VALUE klass = rb_define_class_under(mAbaca, "WaitSamples", rb_cObject);
  rb_define_alloc_func(klass, samples_alloc);
  rb_define_method(klass, "initialize", samples_initialize, 1);
  rb_define_method(klass, "look", samples_look, 0);
  rb_define_method(klass, "look_at_runs", samples_look_at_runs, 1);
  rb_define_method(klass, "looks", samples_looks, 0);
  rb_define_method(klass, "to_a", samples_to_a, 0);
  rb_define_method(cEngine, "backtraces", server_backtraces, 1);
  rb_define_method(cEngine, "tell_stalls", server_tell_stalls, 0);
  rb_define_method(cEngine, "profile_stalls=", server_profile_stalls, 1);
  rb_define_method(cEngine, "stall_samples", server_stall_samples, 1);
}
