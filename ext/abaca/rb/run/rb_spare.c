/* Spare loops: Ruby threads with their own scheduler and pool, made when first needed and kept.
 * Called by the standby, a spare claims the lead, takes what has not begun and runs it. When the
 * main loop is back it leads, and the spare finishes what it has. The engine's poller is the main
 * loop's; a spare that leads watches it through its own. */
#include "rb/run/rb_spare.h"

#include <poll.h>
#include <pthread.h>
#include <ruby/thread.h>

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_rack_setup.h"
#include "rb/run/rb_stalls.h"
#include "rb/run/rb_thread_pool.h"
#include "rb/run/rb_turn.h"
#include "rb/scheduler/rb_scheduler.h"

typedef struct ab_spare {
  ab_driver driver;
  ab_list link; /* in spares->loops */
  VALUE scheduler, pool;
  ab_watch engine; /* the engine's poller, in the spare's own, while it leads */
  /* It is to claim the lead, and has not tried yet. Stored, then its poller is woken, which brings
   * the store. Partner: spare_turn. */
  _Atomic bool called;
  bool over; /* its loop has ended */
} ab_spare;

static ab_spare *spare_of(ab_participant *participant) {
  return AB_CONTAINER_OF(ab_driver_of_participant(participant), ab_spare, driver);
}

/* --- life --- */

void ab_spares_init(ab_spares *spares) {
  ab_list_init(&spares->loops);
  spares->maker = spares->threads = spares->keeper = spares->forward = Qnil;
}

void ab_spares_mark(const ab_spares *spares) {
  rb_gc_mark(spares->maker);
  rb_gc_mark(spares->threads);
  rb_gc_mark(spares->keeper);
  rb_gc_mark(spares->forward);
  for (const ab_list *node = spares->loops.next; node != &spares->loops; node = node->next) {
    const ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    rb_gc_mark(spare->driver.runner.thread);
    rb_gc_mark(spare->scheduler);
    rb_gc_mark(spare->pool);
  }
}

void ab_spares_fini(ab_spares *spares) {
  for (ab_list *node; (node = ab_list_shift(&spares->loops));) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    ab_free(&ab_mem_libc, spare->driver.runner.scratch);
    ab_free(&ab_mem_libc, spare);
  }
}

/* --- leading --- */

/* What comes there is dealt with in the turn that follows. */
static void engine_ready(ab_watch *watch AB_UNUSED, uint32_t events AB_UNUSED) {}

/* A spare that the engine's poller cannot wake cannot lead. */
static bool watch_engine(ab_spare *spare, bool watches) {
  if (watches) spare->engine.fd = ab_poller_fd(spare->driver.run->rack.poller);
  if (watches == (spare->engine.events != 0)) return true;
  ab_poller *poller = ab_loop_poller(spare->driver.loop);
  int err = AB_OK;
  ab_poller_lock(poller);
  if (watches) {
    err = ab_poller_set(poller, &spare->engine, AB_POLL_IN);
  } else {
    ab_poller_unset(poller, &spare->engine, false);
  }
  ab_poller_unlock(poller);
  return err == AB_OK;
}

static bool leads(ab_spare *spare) {
  return ab_lead_held(&spare->driver.run->rack.lead, &spare->driver.runner.participant);
}

static void come(ab_spare *spare) {
  ab_run *run = spare->driver.run;
  /* It is there, whatever it was called from. */
  ab_pulse_return(&spare->driver.runner.participant.pulse);
  if (!ab_stalls_excuses(run) && watch_engine(spare, true) &&
      !ab_lead_claim(&run->rack.lead, &spare->driver.runner.participant)) {
    watch_engine(spare, false);
  }
  atomic_store(&spare->called, false);
}

static void spare_collect_events(ab_run *run) {
  ab_poller *poller = run->rack.poller;
  ab_poller_collect(poller);
  ab_poller_lock(poller);
  /* Without memory they stay collected; the main loop finds them. */
  int err = ab_poller_dispatch_roaming(poller);
  (void)err;
  ab_poller_unlock(poller);
}

static bool spare_turn(void *ctx, ab_nsec now) {
  ab_spare *spare = ctx;
  ab_run *run = spare->driver.run;
  if (atomic_load(&spare->called)) come(spare);
  bool more = false;
  if (leads(spare)) {
    spare_collect_events(run);
    more = ab_turn_run(&spare->driver, now);
  }
  if (!leads(spare)) {
    watch_engine(spare, false);
    more = false;
    /* What it has ended may have kept others from beginning. */
    ab_rack_tell_opened(&run->rack);
    /* The main loop may wait for the last fiber of a spare. */
    if (AB_UNLIKELY(run->rack.draining)) ab_rack_tell_leader(&run->rack);
  }
  return more || atomic_load(&spare->called);
}

static ab_nsec spare_deadline(void *ctx) {
  ab_spare *spare = ctx;
  ab_run *run = spare->driver.run;
  return ab_lead_is(&run->rack.lead, &spare->driver.runner.participant) ? ab_turn_deadline(run) : 0;
}

static bool spare_done(void *ctx) {
  return ((ab_spare *)ctx)->driver.run->spares.ending;
}

static bool spare_given_up(void *ctx) {
  return ((ab_spare *)ctx)->driver.run->spares.abandoned;
}

static bool spare_contended(void *ctx) {
  return ab_spares_contended(&((ab_spare *)ctx)->driver);
}

static ab_nsec spare_lost(void *ctx) {
  return ab_turn_lost(&((ab_spare *)ctx)->driver);
}

static void spare_rests(void *ctx) {
  ab_spare *spare = ctx;
  ab_gate_rest(&spare->driver.run->rack.lead.gate, &spare->driver.runner.participant.contender);
}

static const ab_loop_client spare_client = {
    .rests = spare_rests,
    .turn = spare_turn,
    .deadline = spare_deadline,
    .done = spare_done,
    .given_up = spare_given_up,
    .contended = spare_contended,
    .lost = spare_lost,
};

/* --- running --- */

static VALUE run_loop_on(VALUE arg) {
  ab_loop_run(((ab_spare *)arg)->driver.loop);
  return Qnil;
}

static VALUE run_loop(VALUE arg) {
  ab_stray_guard(((ab_spare *)arg)->driver.run, run_loop_on, arg);
  return Qnil;
}

/* What ended the loop before its time concerns the process: the main loop raises it. */
static void forward(ab_run *run, int state) {
  VALUE exception = rb_errinfo();
  if (ab_is_exception(exception)) {
    rb_set_errinfo(Qnil);
  } else if (run->spares.ending) {
    return;
  } else {
    exception = rb_exc_new_cstr(ab_class("Error"), "the thread of a spare loop was killed");
  }
  if (NIL_P(run->spares.forward)) run->spares.forward = exception;
  ab_rack_tell_leader(&run->rack);
}

static void leave(ab_spare *spare) {
  ab_run *run = spare->driver.run;
  spare->over = true;
  atomic_store(&spare->called, false);
  ab_loop_detach(spare->driver.loop);
  ab_loop_set_pulse(spare->driver.loop, NULL);
  ab_native_end(&spare->driver);
  if (ab_rack_forked(&run->rack)) return;
  ab_histogram_join(&run->lag, ab_loop_lag(spare->driver.loop));
  watch_engine(spare, false);
  ab_lead_part(&run->rack.lead, &spare->driver.runner.participant);
  ab_gate_part(&run->rack.lead.gate, &spare->driver.runner.participant.contender);
  if (run->spares.abandoned) ab__loop_close(spare->driver.loop);
}

static ab_spare *new_spare(ab_run *run, VALUE scheduler, VALUE pool) {
  ab_loop *loop = ab_loop_of(scheduler);
  ab_pool *fibers = ab_pool_of(pool);
  ab_spare *spare = ab_alloc_zero(&ab_mem_libc, sizeof *spare);
  if (!spare || ab_runner_init(&spare->driver.runner, &run->rack, &ab_executor_native) != AB_OK) {
    ab_free(&ab_mem_libc, spare);
    rb_memerror();
  }
  spare->scheduler = scheduler;
  spare->pool = pool;
  spare->engine = (ab_watch){.ready = engine_ready, .fd = -1};
  spare->driver.runner.thread = rb_thread_current();
  spare->driver.run = run;
  spare->driver.loop = loop;
  spare->driver.pool = fibers;
  atomic_init(&spare->called, true);
  ab_list_append(&run->spares.loops, &spare->link);
  run->spares.count++;
  return spare;
}

void ab_spares_run(ab_run *run, VALUE scheduler, VALUE pool) {
  ab_spares *spares = &run->spares;
  if (!run->rack.standby || spares->ending || spares->count >= spares->most) return;
  ab_spare *spare = new_spare(run, scheduler, pool);
  ab_loop_attach(spare->driver.loop, &spare_client, spare);
  ab_loop_set_pulse(spare->driver.loop, &spare->driver.runner.participant.pulse);
  ab_native_begin(&spare->driver);
  ab_participant *participant = &spare->driver.runner.participant;
  ab_gate_join(&run->rack.lead.gate, &participant->contender, &participant->pulse);
  ab_lead_join(&run->rack.lead, participant, ab_standby_bell(run->rack.standby));
  atomic_store(&spares->made, 0);
  atomic_store(&spares->making, false);
  int state = 0;
  rb_protect(run_loop, (VALUE)spare, &state);
  bool forked = ab_rack_forked(&run->rack);
  if (state && !forked) forward(run, state);
  leave(spare);
  /* A forked child goes on with its end; a thread that is killed, with its own. */
  if (state && (forked || !NIL_P(rb_errinfo()))) rb_jump_tag(state);
}

/* --- the spares --- */

/* A thread that is being made has this long to come, before there is another try. */
#define MAKING_TIME AB_NSEC_PER_SEC

enum ab_spare_answer ab_spares_call(ab_run *run) {
  ab_spares *spares = &run->spares;
  ab_spare *idle = NULL;
  unsigned count = 0;
  bool called = false;
  pthread_mutex_lock(&run->rack.lead.lock);
  ab_list_each (node, tmp, &run->rack.lead.participants) {
    ab_participant *participant = AB_CONTAINER_OF(node, ab_participant, link);
    if (participant == &run->main.runner.participant) continue;
    ab_spare *spare = spare_of(participant);
    count++;
    if (atomic_load(&spare->called)) called = true;
    /* One that only waits for the GVL is there as soon as a new one would be. */
    bool kept =
        atomic_load(&participant->pulse.beat) & 1 && !atomic_load(&participant->pulse.starved);
    if (!kept) idle = spare;
  }
  if (!called && idle) {
    atomic_store(&idle->called, true);
    ab_poller_wakeup(ab_loop_poller(idle->driver.loop));
  }
  pthread_mutex_unlock(&run->rack.lead.lock);
  if (called || idle) return AB_SPARE_COMES;
  if (count >= spares->most) return AB_SPARE_NONE;
  ab_nsec now = ab_clock_monotonic(), made = atomic_load(&spares->made);
  if (!made || now - made >= MAKING_TIME) {
    atomic_store(&spares->made, now);
    atomic_store(&spares->making, true);
    atomic_store(&spares->wanted, true);
  }
  return atomic_load(&spares->making) ? AB_SPARE_MAKING : AB_SPARE_NONE;
}

bool ab_spares_is_making(const ab_run *run) {
  const ab_spares *spares = &run->spares;
  if (AB_LIKELY(!atomic_load(&spares->making)) || spares->ending) return false;
  VALUE thread = rb_thread_current();
  for (long i = 0; i < RARRAY_LEN(spares->threads); i++) {
    if (RARRAY_AREF(spares->threads, i) != thread) continue;
    const ab_list *loops = &spares->loops;
    for (const ab_list *node = loops->next; node != loops; node = node->next) {
      if (AB_CONTAINER_OF(node, ab_spare, link)->driver.runner.thread == thread) return true;
    }
    return false; /* this is the one that is being made */
  }
  return true;
}

static VALUE call_maker(VALUE arg) {
  return rb_funcall(((ab_run *)arg)->spares.maker, rb_intern("call"), 0);
}

static VALUE maker_ended(VALUE arg) {
  atomic_store(&((ab_run *)arg)->spares.making, false);
  return Qnil;
}

static VALUE run_maker(void *arg) {
  return rb_ensure(call_maker, (VALUE)arg, maker_ended, (VALUE)arg);
}

static VALUE make_thread(VALUE arg) {
  ab_run *run = (ab_run *)arg;
  rb_ary_push(run->spares.threads, rb_thread_create(run_maker, run));
  return Qnil;
}

void ab_spares_make(ab_run *run) {
  ab_spares *spares = &run->spares;
  if (!atomic_exchange(&spares->wanted, false) || spares->ending || NIL_P(spares->maker)) return;
  if (ab_stalls_excuses(run)) { /* no spare has to come: it may be wanted again soon */
    atomic_store(&spares->making, false);
    atomic_store(&spares->made, 0);
    return;
  }
  int state = 0;
  rb_protect(make_thread, (VALUE)run, &state);
  if (!state) return;
  rb_set_errinfo(Qnil); /* there is no thread to be had; it is tried again later */
  atomic_store(&spares->making, false);
}

/* --- the keeper --- */

/* A job makes a spare at once, on the thread with the GVL. While all wait without the GVL (flock, a
 * client in C) no thread runs jobs, and the keeper makes it after this time. */
#define JOB_TIME (5 * AB_NSEC_PER_MS)

void ab_spares_rouse(ab_run *run) {
  ab_spares *spares = &run->spares;
  ab_nsec made = atomic_load(&spares->made);
  if (NIL_P(spares->keeper) || !atomic_load(&spares->wanted)) return;
  if (ab_clock_monotonic() - made >= JOB_TIME) ab_bell_ring(&spares->bell);
}

static void *await_bell(void *arg) {
  ab_spares *spares = arg;
  struct pollfd bell = {spares->bell.os.fd, POLLIN, 0};
  poll(&bell, 1, -1);
  ab_bell_hush(&spares->bell);
  return NULL;
}

static void wake_keeper(void *arg) {
  ab_bell_ring(&((ab_spares *)arg)->bell);
}

static VALUE spare_keep(void *arg) {
  ab_run *run = arg;
  ab_spares *spares = &run->spares;
  while (!spares->ending) {
    rb_nogvl(await_bell, spares, wake_keeper, spares, 0);
    ab_spares_make(run);
  }
  return Qnil;
}

static VALUE make_keeper(VALUE arg) {
  ab_run *run = (ab_run *)arg;
  run->spares.keeper = rb_thread_create(spare_keep, run);
  return rb_funcall(run->spares.keeper, rb_intern("name="), 1, rb_str_new_cstr("abaca keeper"));
}

void ab_spares_begin(ab_run *run) {
  ab_spares *spares = &run->spares;
  spares->threads = rb_ary_new();
  spares->ending = spares->abandoned = false;
  if (spares->most == 0 || NIL_P(spares->maker) || ab_bell_init(&spares->bell) != AB_OK) return;
  /* Without it the first spare may have to wait. */
  ab_quietly(make_keeper, (VALUE)run);
  if (NIL_P(spares->keeper)) ab_bell_fini(&spares->bell);
}

void ab_spares_part(ab_run *run) {
  if (NIL_P(run->spares.keeper)) return;
  run->spares.keeper = Qnil;
  ab_bell_fini(&run->spares.bell);
}

void ab_spares_each(ab_run *run, void (*fn)(ab_driver *driver)) {
  fn(&run->main);
  ab_list_each (node, tmp, &run->spares.loops) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over) fn(&spare->driver);
  }
}

static bool is_away(const ab_driver *driver) {
  /* Relaxed: a guess, which may be wrong a moment later. */
  return atomic_load_explicit(&driver->runner.participant.pulse.beat, memory_order_relaxed) & 1;
}

size_t ab_spares_busy(const ab_run *run) {
  size_t busy = ab_pool_busy(run->main.pool);
  const ab_list *loops = &run->spares.loops;
  for (const ab_list *node = loops->next; node != loops; node = node->next) {
    busy += ab_pool_busy(AB_CONTAINER_OF(node, ab_spare, link)->driver.pool);
  }
  return busy;
}

/* Is a loop other than the driver's kept by a fiber? */
static bool competes(const ab_run *run, const ab_driver *driver) {
  const ab_spares *spares = &run->spares;
  if (AB_LIKELY(spares->count == 0)) return false;
  if (driver != &run->main && is_away(&run->main)) return true;
  for (const ab_list *node = spares->loops.next; node != &spares->loops; node = node->next) {
    const ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (&spare->driver != driver && !spare->over && is_away(&spare->driver)) return true;
  }
  return false;
}

bool ab_spares_contended(const ab_driver *driver) {
  const ab_run *run = driver->run;
  return (run->threads && ab_thread_pool_busy(run->threads)) || competes(run, driver);
}

bool ab_spares_quiet(const ab_run *run) {
  const ab_list *loops = &run->spares.loops;
  for (const ab_list *node = loops->next; node != loops; node = node->next) {
    const ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over && !ab_loop_idle(spare->driver.loop)) return false;
  }
  return true;
}

void ab_spares_interrupt_others(ab_run *run, VALUE exception) {
  if (run->main.loop) ab__loop_interrupt_all(run->main.loop, exception);
  ab_list_each (node, tmp, &run->spares.loops) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over) ab__loop_interrupt_all(spare->driver.loop, exception);
  }
}

void ab_spares_raise(ab_run *run) {
  VALUE exception = run->spares.forward;
  if (AB_LIKELY(NIL_P(exception))) return;
  run->spares.forward = Qnil;
  ab_stray_end_run(run, exception);
}

/* --- the end --- */

static VALUE join(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg;
  return rb_funcall(argv[0], rb_intern("join"), 1, argv[1]);
}

static VALUE kill_thread(VALUE thread) {
  return rb_funcall(thread, rb_intern("kill"), 0);
}

/* Waits for the thread whatever is raised meanwhile; returns the state of the first of that. */
static int await_end(VALUE thread, VALUE seconds) {
  int first = 0;
  for (;;) {
    int state = 0;
    VALUE argv[] = {thread, seconds};
    rb_protect(join, (VALUE)argv, &state);
    if (!state) return first;
    if (!first) first = state;
  }
}

static void spare_wake_all(ab_run *run) {
  ab_list_each (node, tmp, &run->spares.loops) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over) ab_poller_wakeup(ab_loop_poller(spare->driver.loop));
  }
}

int ab_spares_end(ab_run *run, bool abandon) {
  ab_spares *spares = &run->spares;
  spares->ending = true;
  spares->abandoned = abandon;
  if (NIL_P(spares->threads) || ab_rack_forked(&run->rack)) return 0;
  spare_wake_all(run);
  if (!NIL_P(spares->keeper)) ab_bell_ring(&spares->bell);
  int first = NIL_P(spares->keeper) ? 0 : await_end(spares->keeper, Qnil);
  for (long i = 0; i < RARRAY_LEN(spares->threads); i++) {
    VALUE thread = RARRAY_AREF(spares->threads, i);
    /* A fiber that computes, and is not awaited, keeps its thread no longer than this. */
    int state = await_end(thread, abandon ? DBL2NUM(0.5) : Qnil);
    if (!first) first = state;
    if (!abandon) continue;
    ab_quietly(kill_thread, thread);
    state = await_end(thread, Qnil);
    if (!first) first = state;
  }
  spares->threads = Qnil;
  return first;
}
