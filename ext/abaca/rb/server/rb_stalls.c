/* What the server does about fibers that keep their loop, and about threads that keep the GVL: the
 * standby that watches, what it calls, and what is told about the culprits. */
#include <ruby.h>
#include <ruby/fiber/scheduler.h>
#include <time.h>

#include "rb/server/rb_spare.h"
#include "rb/scheduler/rb_scheduler.h"

/* --- settings --- */

/* So many times sooner the next one loses the lead while somebody stalls already. */
#define AGAIN 4

/* A time that does not come. */
#define NEVER (UINT64_MAX / 4)

/* A collection counts from this share of the time after which a loop has stalled. */
#define SHARE 2

/* What collections have taken since the process began, of its CPU time. Makes no object, but for
 * the first time. */
static uint64_t collected_ms(void) {
  return rb_gc_stat(ID2SYM(rb_intern("time")));
}

/* The CPU time of the process, since a machine that is busy with others is nobody's fault here. */
static ab_nsec cpu_time(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return (ab_nsec)now.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)now.tv_nsec;
}

static ab_nsec seconds(VALUE options, const char *name, double otherwise) {
  VALUE value = ab_server_option(options, name);
  double time = NIL_P(value) ? otherwise : NUM2DBL(value);
  if (!(time >= 0 && time < (double)UINT32_MAX)) {
    rb_raise(rb_eArgError, "%s: seconds are needed, not %" PRIsVALUE, name, rb_inspect(value));
  }
  return (ab_nsec)(time * (double)AB_NSEC_PER_SEC);
}

void ab_stalls_init(ab_server *server, VALUE options) {
  ab_standby_options *times = &server->stalls.options;
  server->stalls.collected = collected_ms();
  ab_nsec after = seconds(options, "stall_after", 0.02);
  times->stall_after = after ? after : NEVER;
  times->stall_again = times->stall_after / AGAIN;
  times->report_after = seconds(options, "stall_report", 0.1);
  times->starve_after = seconds(options, "gvl_wait_target", 0.005);
  server->stalls.collected =
      collected_ms(); /* it makes its symbols now, and not in ab_stalls_mark */
  server->stalls.reporter = ab_server_option(options, "stall_reporter");
  server->stalls.records = rb_ary_new();
  VALUE most = ab_server_option(options, "spare_loops");
  server->crew.maker = ab_server_option(options, "spare_maker");
  server->crew.most = NIL_P(most) || !after ? 0 : NUM2UINT(most);
}

/* --- collections --- */

void ab_stalls_mark(ab_stalls *stalls) {
  rb_gc_mark(stalls->records);
  rb_gc_mark(stalls->reporter);
  if (stalls->options.stall_after == 0)
    return; /* the first look, which makes symbols, is to come */
  stalls->marked_at = cpu_time();
  stalls->collected = collected_ms();
}

/* Of the loop whose fiber runs here, or NULL. */
static const ab_pulse *current_pulse(void) {
  const ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_get());
  return loop ? loop->pulse : NULL;
}

bool ab_stalls_excuses(const ab_server *server) {
  const ab_stalls *stalls = &server->stalls;
  return stalls->excused && atomic_load(&stalls->excused->beat) == stalls->excused_beat &&
         cpu_time() < stalls->excused_until;
}

/* Has this loop just come back from a collection which was as good as a stall? Where many fibers
 * wait each one is. Nobody else could have run meanwhile, and a spare loop would only make fibers
 * of its own. Once in a beat, since a fiber that computes may cause one after the other. */
static void excuse(ab_stalls *stalls) {
  const ab_pulse *pulse = current_pulse();
  if (!pulse) return;
  uint64_t beat = atomic_load(&pulse->beat);
  if (pulse == stalls->excused && beat == stalls->excused_beat) return;
  ab_nsec now = cpu_time(), after = stalls->options.stall_after;
  ab_nsec time = (collected_ms() - stalls->collected) * AB_NSEC_PER_MS;
  if (time < after / SHARE || now - stalls->marked_at >= time + after) return;
  stalls->excused = pulse;
  stalls->excused_beat = beat;
  stalls->excused_until = now + after;
}

/* --- what the standby calls --- */

static void call(void *ctx, unsigned stalled) {
  ab_server *server = ctx;
  if (stalled == 0 || server->crew.most == 0) return;
  enum ab_call heard = ab_crew_call(server);
  if (heard == AB_CALL_HEARD) return;
  if (heard == AB_CALL_MAKING) ab_crew_rouse(server);
  /* Of those that are kept some may only wait for the GVL, in the middle of a short request: Ruby
   * would give each of the others 100 ms before. */
  atomic_store(heard == AB_CALL_MAKING ? &server->stalls.nudge : &server->stalls.rotate, true);
  ab_job_trigger(server);
}

static void nudge(void *ctx, bool long_enough) {
  ab_server *server = ctx;
  if (long_enough) atomic_store(&server->stalls.nudge, true);
  ab_job_trigger(server);
}

static bool report(void *ctx, ab_seat *seat, uint64_t beat, ab_nsec since) {
  ab_runner *runner = AB_CONTAINER_OF(seat, ab_runner, seat);
  if (atomic_load(&runner->told) == beat) return true;
  if (atomic_load(&runner->asked) != beat) {
    atomic_store(&runner->asked_at, ab_clock_monotonic());
    atomic_store(&runner->asked_since, since);
    atomic_store(&runner->asked, beat);
  }
  ab_job_trigger(ctx);
  return false;
}

/* A stop that was asked for is for the application's side to begin, as it is to answer for a
 * request that is waited for no longer, or has waited too long for a thread. */
static bool wanted(void *ctx) {
  const ab_server *server = ctx;
  ab_nsec due = ab_earlier(server->overdue, server->gang_deadline);
  return (server->stop_requested && !server->draining) ||
         (server->halt_requested && !server->forced) || (due && ab_clock_monotonic() >= due);
}

static const ab_standby_calls calls = {
    .call = call, .nudge = nudge, .report = report, .wanted = wanted};

/* --- with the GVL --- */

/* The env of the request whose fiber runs, or nil. */
static VALUE current_env(const ab_runner *runner) {
  VALUE fiber = rb_fiber_current(), carrier = runner->loop ? runner->loop->carrier : Qnil;
  const ab_list *exchanges = &runner->server->exchanges;
  for (const ab_list *node = exchanges->next; node != exchanges; node = node->next) {
    const ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    if (exchange->runner != runner) continue;
    if (exchange->fiber == fiber || exchange->fiber == carrier) return exchange->env;
  }
  return Qnil;
}

/* Where the thread is, if it is the one that was asked; for one that waits for the GVL, where the
 * one is that has it. */
static void tell(ab_runner *runner) {
  uint64_t beat = atomic_load(&runner->seat.pulse.beat);
  if (AB_LIKELY(atomic_load(&runner->asked) != beat) || !(beat & 1)) return;
  if (atomic_load(&runner->told) == beat) return;
  bool ours = rb_thread_current() == runner->thread;
  if (!ours && !atomic_load(&runner->seat.pulse.starved)) return;
  ab_server *server = runner->server;
  ab_nsec now = ab_clock_monotonic(), asked = atomic_load(&runner->asked_at);
  double time = (double)(now - atomic_load(&runner->asked_since)) / (double)AB_NSEC_PER_SEC;
  /* The first safe point for as long as a stall may take. */
  bool late = now - asked >= server->stalls.options.report_after;
  VALUE env = ours ? current_env(runner) : Qnil;
  VALUE record =
      rb_ary_new_from_args(4, DBL2NUM(time), env, rb_make_backtrace(), late ? Qtrue : Qfalse);
  rb_ary_push(server->stalls.records, record);
  server->counts.stalls++;
  atomic_store(&runner->told, beat);
}

/* Does the calling thread keep the GVL? One that has it at two looks in a row does. Where it is
 * another one each time it goes round as fast as it can: many threads have been woken at once, say,
 * and each wants it for a moment only. To pass it on would make that longer. */
static bool keeps_gvl(ab_stalls *stalls) {
  VALUE thread = rb_thread_current();
  bool again = stalls->holder == thread;
  stalls->holder = thread;
  return again;
}

/* Has the calling thread got the GVL back in the middle of taking a request? Nobody waits for it
 * then but others, and that one comes first. */
static bool is_reading(void) {
  const ab_pulse *pulse = current_pulse();
  return pulse && atomic_load(&pulse->reading);
}

bool ab_stalls_attend(ab_server *server) {
  bool keeps = keeps_gvl(&server->stalls);
  excuse(&server->stalls);
  ab_crew_make(server);
  if (ab_stalls_excuses(server) && current_pulse() == server->stalls.excused) return false;
  ab_crew_each(server, tell);
  if (is_reading()) return false;
  if (atomic_exchange(&server->stalls.rotate, false)) return true;
  if (!atomic_exchange(&server->stalls.nudge, false)) return false;
  return (keeps && ab_lead_starves(&server->lead)) || ab_crew_is_making(server);
}

static VALUE log_record(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg;
  return rb_funcallv(argv[0], rb_intern("call"), 4, RARRAY_CONST_PTR(argv[1]));
}

void ab_stalls_log(ab_server *server) {
  VALUE record;
  while (!NIL_P(record = rb_ary_shift(server->stalls.records))) {
    VALUE argv[] = {server->stalls.reporter, record};
    if (!NIL_P(argv[0])) ab_server_quietly(log_record, (VALUE)argv);
    RB_GC_GUARD(record);
  }
}

/* --- the run --- */

void ab_stalls_begin_on_threads(ab_server *server) {
  ab_job_begin(server);
  server->standby =
      ab_standby_start(&server->lead, server->poller, &server->stalls.options, &calls, server);
  if (!server->standby) rb_sys_fail("cannot start the standby");
}

void ab_stalls_begin(ab_server *server) {
  ab_crew_begin(server);
  ab_stalls_begin_on_threads(server);
  ab_lead_join(&server->lead, &server->home.seat, ab_standby_bell(server->standby));
  ab_loop_set_pulse(server->home.loop, &server->home.seat.pulse);
}

void ab_stalls_end(ab_server *server) {
  if (server->home.loop) ab_loop_set_pulse(server->home.loop, NULL);
  ab_job_end(server);
  ab_standby *standby = server->standby;
  server->standby = NULL;
  if (!standby) return;
  if (ab_server_forked(server)) {
    server->home.seat.pulse.bell = NULL;
    ab_standby_forget(standby);
    ab_crew_part(server);
    return;
  }
  ab_lead_part(&server->lead, &server->home.seat);
  ab_nsec longest = ab_standby_get_stats(standby).longest;
  if (longest > server->counts.longest_stall) server->counts.longest_stall = longest;
  ab_standby_stop(standby);
  ab_crew_part(server);
  ab_stalls_log(server);
}
