/* What the standby calls about fibers that keep their loop and threads that keep the GVL. */
#include "rb/run/rb_stalls.h"

#include <ruby/fiber/scheduler.h>

#include "os/cpu_time.h"
#include "rb/rack/rb_lookup.h"
#include "rb/run/rb_spare.h"
#include "rb/run/rb_stall_samples.h"
#include "rb/run/rb_thread_pool.h"
#include "rb/run/rb_turn.h"
#include "rb/scheduler/rb_scheduler.h"

/* --- settings --- */

/* While one stalls already the next one loses the lead sooner: after this share of the time. */
#define AGAIN 4

/* What is known to take longer than this is as good as a stall then. */
#define HEAVY_AFTER (5 * AB_NSEC_PER_MS)

/* A collection counts from this share of the time after which a loop has stalled. */
#define SHARE 2

/* A thread of ours may wait for the GVL for this time. */
#define STARVE (5 * AB_NSEC_PER_MS)

/* A thread that runs no requests may keep the GVL from us for this time. */
#define STRANGER_SLICE (5 * AB_NSEC_PER_MS)

/* CPU time of collections since the process began. Makes no object, but for the first time. */
static uint64_t collected_ms(void) {
  return rb_gc_stat(ID2SYM(rb_intern("time")));
}

static ab_nsec seconds(VALUE options, const char *name) {
  VALUE value = ab_option(options, name);
  double time = NUM2DBL(value);
  if (!(time >= 0 && time < (double)UINT32_MAX)) {
    rb_raise(rb_eArgError, "%s: seconds are needed, not %" PRIsVALUE, name, rb_inspect(value));
  }
  return (ab_nsec)(time * (double)AB_NSEC_PER_SEC);
}

void ab_stalls_init(ab_stalls *stalls) {
  stalls->records = stalls->reporter = Qnil;
}

void ab_stalls_configure(ab_run *run, VALUE options) {
  ab_standby_options *times = &run->stalls.options;
  ab_nsec after = seconds(options, "stall_after");
  times->stall_after = after ? after : AB_STALLS_NEVER;
  times->stall_again = times->stall_after / AGAIN;
  times->heavy_after = after ? HEAVY_AFTER : 0;
  times->report_after = seconds(options, "stall_report");
  times->sample_after = after;
  times->starve_after = after ? STARVE : 0;
  run->stalls.collected = collected_ms(); /* it makes its symbols now, and not in ab_stalls_mark */
  run->stalls.reporter = ab_option(options, "stall_reporter");
  run->stalls.records = rb_ary_new();
  VALUE most = ab_option(options, "spare_loops");
  run->spares.maker = ab_option(options, "spare_maker");
  run->spares.most = NIL_P(most) || !after ? 0 : NUM2UINT(most);
}

/* --- collections --- */

void ab_stalls_mark(ab_stalls *stalls) {
  rb_gc_mark(stalls->records);
  rb_gc_mark(stalls->reporter);
  ab_stall_samples_mark(&stalls->kept);
  ab_stall_samples_mark(&stalls->asked);
  if (stalls->options.stall_after == 0)
    return; /* the first look, which makes symbols, is to come */
  stalls->marked_at = ab_os_process_cpu_time();
  stalls->collected = collected_ms();
}

/* Of the loop whose fiber runs here, or NULL. */
static const ab_pulse *current_pulse(void) {
  const ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_get());
  return loop ? loop->pulse : NULL;
}

bool ab_stalls_excuses(const ab_run *run) {
  const ab_stalls *stalls = &run->stalls;
  return stalls->excused && atomic_load(&stalls->excused->beat) == stalls->excused_beat &&
         ab_os_process_cpu_time() < stalls->excused_until;
}

/* The pulse of a loop that runs here is a driver's. Another server's may be freed before the run.
 */
static bool is_own(const ab_run *run, const ab_pulse *pulse) {
  ab_pulse *found = (ab_pulse *)pulse;
  return ab_driver_of_participant(AB_CONTAINER_OF(found, ab_participant, pulse))->run == run;
}

/* Has this loop just come back from a collection that took as long as a stall? Nothing else could
 * have run meanwhile, and a spare loop would only make more fibers. By CPU time: a machine that is
 * busy with others is no fiber's fault. Once in a beat, since a fiber that computes may cause one
 * after the other. */
static void excuse(ab_run *run) {
  ab_stalls *stalls = &run->stalls;
  const ab_pulse *pulse = current_pulse();
  if (!pulse || !is_own(run, pulse)) return;
  uint64_t beat = atomic_load(&pulse->beat);
  if (pulse == stalls->excused && beat == stalls->excused_beat) return;
  ab_nsec now = ab_os_process_cpu_time(), after = stalls->options.stall_after;
  ab_nsec time = (collected_ms() - stalls->collected) * AB_NSEC_PER_MS;
  if (time < after / SHARE || now - stalls->marked_at >= time + after) return;
  stalls->excused = pulse;
  stalls->excused_beat = beat;
  stalls->excused_until = now + after;
}

/* --- what the standby calls --- */

static void stalls_call(void *ctx, unsigned stalled) {
  ab_run *run = ctx;
  if (stalled == 0 || run->spares.most == 0) return;
  enum ab_spare_answer heard = ab_spares_call(run);
  if (heard != AB_SPARE_MAKING) return;
  ab_spares_rouse(run);
  atomic_store(&run->stalls.nudge, true);
  ab_job_trigger(run);
}

static void opened(void *ctx) {
  ab_run *run = ctx;
  ab_rack_tell_opened(&run->rack);
}

static void nudge(void *ctx, bool long_enough) {
  ab_run *run = ctx;
  if (long_enough) atomic_store(&run->stalls.nudge, true);
  ab_job_trigger(run);
}

static bool report(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec since,
                   bool delays) {
  ab_driver *driver = ab_driver_of_participant(participant);
  bool told = atomic_load(&driver->told) == beat;
  if (told && (atomic_load(&driver->told_delays) || !delays)) return true;
  if (atomic_load(&driver->asked) != beat || atomic_load(&driver->asked_delays) != delays) {
    atomic_store(&driver->asked_at, ab_clock_monotonic());
    atomic_store(&driver->asked_since, since);
    atomic_store(&driver->asked_delays, delays);
    atomic_store(&driver->asked, beat);
  }
  ab_job_trigger(ctx);
  return false;
}

static void ended(void *ctx, ab_participant *participant, const ab_stall_end *end) {
  ab_driver *driver = ab_driver_of_participant(participant);
  /* It is told within the beat, or not at all. */
  if (atomic_load(&driver->told) != end->beat) return;
  atomic_store(&driver->over_length, end->length);
  atomic_store(&driver->over_computed, end->computed);
  atomic_store(&driver->over_waited, end->waited);
  atomic_store(&driver->over, end->beat);
  ab_job_trigger(ctx);
}

static void sample(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec from) {
  ab_stall_samples_want(ab_driver_of_participant(participant), beat, from);
  ab_job_trigger(ctx);
}

static bool stalls_pass(void *ctx, ab_participant *leader, bool again) {
  return ab_thread_pool_pass(((ab_run *)ctx)->threads, leader, again);
}

/* True for a stop to begin, or a request that is overdue or has waited too long for a thread. */
static bool stalls_wanted(void *ctx) {
  const ab_run *run = ctx;
  ab_nsec due = ab_earlier(run->rack.overdue, run->threads_deadline);
  /* Relaxed: without Ruby's lock. If one is out of date, a spare is called for nothing, once. */
  bool draining = __atomic_load_n(&run->rack.draining, __ATOMIC_RELAXED);
  bool forced = __atomic_load_n(&run->ending.forced, __ATOMIC_RELAXED);
  return (run->ending.stop_requested && !draining) || (run->ending.halt_requested && !forced) ||
         (due && ab_clock_monotonic() >= due);
}

static void second(void *ctx, ab_nsec now) {
  ab_run *run = ctx;
  if (run->route_stats) ab_route_stats_age(run->route_stats);
  run->stages->second(run, now);
}

static const ab_standby_calls calls = {.call = stalls_call,
                                       .opened = opened,
                                       .pass = stalls_pass,
                                       .nudge = nudge,
                                       .report = report,
                                       .ended = ended,
                                       .sample = sample,
                                       .wanted = stalls_wanted,
                                       .second = second};

/* --- with the GVL --- */

ab_call *ab_stalls_current_call(const ab_driver *driver) {
  VALUE fiber = rb_fiber_current(), carrier = driver->loop ? driver->loop->carrier : Qnil;
  const ab_list *calls = &driver->run->rack.calls;
  /* The last one first: those that wait have begun before. */
  for (const ab_list *node = calls->prev; node != calls; node = node->prev) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (call->runner != &driver->runner) continue;
    if (call->fiber == fiber || call->fiber == carrier) return call;
  }
  return NULL;
}

/* Is the calling thread the one that keeps the loop? Its own, or the GVL's owner while it waits for
 * the GVL. */
static bool keeps(const ab_driver *driver, bool ours) {
  return ours || atomic_load(&driver->runner.participant.pulse.starved);
}

/* Is this a fiber of the loop whose waits Ruby does not hand over to the scheduler? */
static bool is_blocking_fiber(const ab_loop *loop) {
  return loop && loop->running && rb_fiber_current() != loop->root &&
         NIL_P(rb_fiber_scheduler_current());
}

/* How it has kept the loop, for the reporter: true when Ruby could not interrupt it, for as long as
 * a stall may take; :blocks when it has hardly computed meanwhile, :fiber when that was in a
 * blocking fiber. */
static VALUE how(const ab_driver *driver, bool ours, ab_nsec kept, ab_nsec late) {
  bool uninterrupted = late >= driver->run->stalls.options.report_after;
  if (!ours) return uninterrupted ? Qtrue : Qfalse;
  bool fiber = is_blocking_fiber(driver->loop);
  if (!uninterrupted && !fiber) return Qfalse;
  const ab_contender *contender = &driver->runner.participant.contender;
  ab_nsec used = ab_gate_used_here(&driver->run->rack.lead.gate, contender);
  if (used < kept / 2) return ID2SYM(rb_intern(fiber ? "fiber" : "blocks"));
  return uninterrupted ? Qtrue : Qfalse;
}

/* Has something lighter waited because of it, and was it told before, when nothing had? */
static VALUE delay_of(bool delays, bool again) {
  if (!delays) return ID2SYM(rb_intern("none"));
  return again ? ID2SYM(rb_intern("later")) : ID2SYM(rb_intern("seen"));
}

/* Records where the thread is; for one that waits for the GVL, where the GVL's owner is. */
static void tell(ab_driver *driver, bool ours) {
  uint64_t beat = atomic_load(&driver->runner.participant.pulse.beat);
  if (AB_LIKELY(atomic_load(&driver->asked) != beat) || !(beat & 1)) return;
  bool again = atomic_load(&driver->told) == beat, delays = atomic_load(&driver->asked_delays);
  if (again && (!delays || atomic_load(&driver->told_delays))) return;
  if (!keeps(driver, ours)) return;
  ab_run *run = driver->run;
  ab_nsec now = ab_clock_monotonic(), asked = atomic_load(&driver->asked_at);
  ab_nsec kept = now - atomic_load(&driver->asked_since);
  const ab_call *call = ours ? ab_stalls_current_call(driver) : NULL;
  VALUE env = call ? call->env : Qnil, id = call ? ULL2NUM(call->id) : Qnil;
  if (!again) driver->number = ++run->stalls.count;
  VALUE record = rb_ary_new_from_args(
      9, ID2SYM(rb_intern("call")), ULL2NUM(driver->number), ab_float_seconds(kept), env,
      rb_make_backtrace(), how(driver, ours, kept, now - asked), id,
      ab_float_seconds(atomic_load(&driver->asked_since)), delay_of(delays, again));
  rb_ary_push(run->stalls.records, record);
  atomic_store(&driver->told_delays, delays);
  atomic_store(&driver->told, beat);
}

/* Before the next stall of that loop is told. */
static void tell_end(ab_driver *driver) {
  if (AB_LIKELY(atomic_load(&driver->over) == 0)) return;
  VALUE record = rb_ary_new_from_args(5, ID2SYM(rb_intern("over")), ULL2NUM(driver->number),
                                      ab_float_seconds(atomic_load(&driver->over_length)),
                                      ab_float_seconds(atomic_load(&driver->over_computed)),
                                      ULL2NUM(atomic_load(&driver->over_waited)));
  atomic_store(&driver->over, 0);
  rb_ary_push(driver->run->stalls.records, record);
}

static void look_at(ab_driver *driver) {
  bool ours = rb_thread_current() == driver->runner.thread;
  tell(driver, ours);
  if (AB_LIKELY(atomic_load(&driver->sample) == 0) || !keeps(driver, ours)) return;
  ab_stall_samples_take(driver, ours ? ab_stalls_current_call(driver) : NULL);
}

/* Has the calling thread, which runs no requests, had the GVL at two looks in a row? When it is
 * another each time many threads want it for a moment, and none keeps it. */
static bool keeps_gvl(ab_stalls *stalls, ab_nsec now) {
  VALUE thread = rb_thread_current();
  bool again = stalls->holder == thread;
  if (!again) stalls->held_since = now;
  stalls->holder = thread;
  return again && now - stalls->held_since >= STRANGER_SLICE;
}

/* That of the calling thread, if it runs requests of this server. */
static ab_driver *current_driver(const ab_run *run) {
  const ab_pulse *pulse = current_pulse();
  if (!pulse) return run->threads ? ab_thread_pool_driver_here(run->threads) : NULL;
  if (!is_own(run, pulse)) return NULL;
  return ab_driver_of_participant(AB_CONTAINER_OF((ab_pulse *)pulse, ab_participant, pulse));
}

static bool yields(ab_run *run, ab_driver **driver) {
  bool waits = ab_lead_starves(&run->rack.lead) || ab_spares_is_making(run);
  *driver = current_driver(run);
  ab_contender *contender = *driver ? &(*driver)->runner.participant.contender : NULL;
  if (contender && contender->pulse) return ab_gate_yields(&run->rack.lead.gate, contender, waits);
  *driver = NULL;
  return keeps_gvl(&run->stalls, ab_clock_monotonic()) && waits;
}

/* Is the thread that seems to wait for the GVL this one, which has it? Then it comes first: in the
 * middle of taking a request, and in the switch from a fiber to its loop, where Ruby looks at
 * interrupts. There a trap handler of the application may run, for as long as it likes. */
static bool comes_first(void) {
  const ab_pulse *pulse = current_pulse();
  return pulse && ab_pulse_waits(pulse);
}

bool ab_stalls_attend(ab_run *run, ab_driver **driver) {
  ab_spares_each(run, tell_end);
  excuse(run);
  ab_spares_make(run);
  if (ab_stalls_excuses(run) && current_pulse() == run->stalls.excused) return false;
  ab_spares_each(run, look_at);
  if (comes_first()) return false;
  return atomic_exchange(&run->stalls.nudge, false) && yields(run, driver);
}

/* --- the run --- */

static void stalls_begin(ab_run *run, ab_nsec pass_after) {
  ab_job_begin(run);
  run->stalls.options.pass_after = pass_after;
  run->rack.standby =
      ab_standby_start(&run->rack.lead, run->rack.poller, &run->stalls.options, &calls, run);
  if (!run->rack.standby) rb_sys_fail("cannot start the standby");
}

void ab_stalls_begin_on_threads(ab_run *run) {
  stalls_begin(run, AB_LEAD_PATIENCE);
}

void ab_stalls_begin(ab_run *run) {
  ab_spares_begin(run);
  stalls_begin(run, 0);
  ab_participant *main = &run->main.runner.participant;
  ab_gate_join(&run->rack.lead.gate, &main->contender, &main->pulse);
  ab_lead_join(&run->rack.lead, main, ab_standby_bell(run->rack.standby));
  ab_loop_set_pulse(run->main.loop, &run->main.runner.participant.pulse);
}

void ab_stalls_end(ab_run *run) {
  if (run->main.loop) ab_loop_set_pulse(run->main.loop, NULL);
  ab_job_end(run);
  ab_standby *standby = run->rack.standby;
  run->rack.standby = NULL;
  if (!standby) return;
  if (ab_rack_forked(&run->rack)) {
    run->main.runner.participant.pulse.bell = NULL;
    ab_standby_forget(standby);
    ab_spares_part(run);
    return;
  }
  ab_lead_part(&run->rack.lead, &run->main.runner.participant);
  ab_gate_part(&run->rack.lead.gate, &run->main.runner.participant.contender);
  ab_standby_stats stats = ab_standby_get_stats(standby);
  if (stats.longest > run->stalls.longest) run->stalls.longest = stats.longest;
  ab_standby_stop(standby);
  ab_spares_part(run);
  tell_end(&run->main);
  ab_turn_log_stalls(&run->stalls);
}
