/* Spare loops: Ruby threads with a scheduler and a pool of their own, which lead while home, and
 * perhaps other spares, are kept by their fibers.
 *
 * A spare is made when it is first needed, and stays. It is called by the standby, which has the
 * lead then: it claims it, takes what has not begun and runs it. When home is back it leads, and
 * the spare finishes what it has. The engine's poller is home's; a spare that leads watches it
 * through its own, as pollers nest. */
#include <ruby.h>
#include <ruby/thread.h>
#include <poll.h>
#include <pthread.h>

#include "rb/scheduler/rb_scheduler.h"
#include "rb/server/rb_hybrid.h"
#include "rb/server/rb_spare.h"

typedef struct ab_spare {
  ab_runner runner;
  ab_list link; /* in crew->spares */
  VALUE scheduler, pool;
  ab_watch engine;     /* the engine's poller, in the spare's own, while it leads */
  _Atomic bool called; /* it shall claim the lead, and has not tried yet */
  bool over;           /* its loop has ended */
} ab_spare;

static ab_spare *spare_of(ab_seat *seat) {
  return AB_CONTAINER_OF(AB_CONTAINER_OF(seat, ab_runner, seat), ab_spare, runner);
}

/* --- life --- */

void ab_crew_init(ab_crew *crew) {
  ab_list_init(&crew->spares);
  crew->maker = crew->threads = crew->keeper = crew->forward = Qnil;
}

void ab_crew_mark(const ab_crew *crew) {
  rb_gc_mark(crew->maker);
  rb_gc_mark(crew->threads);
  rb_gc_mark(crew->keeper);
  rb_gc_mark(crew->forward);
  for (const ab_list *node = crew->spares.next; node != &crew->spares; node = node->next) {
    const ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    rb_gc_mark(spare->runner.thread);
    rb_gc_mark(spare->scheduler);
    rb_gc_mark(spare->pool);
  }
}

void ab_crew_fini(ab_crew *crew) {
  for (ab_list *node; (node = ab_list_shift(&crew->spares));) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    ab_free(&ab_mem_libc, spare->runner.scratch);
    ab_free(&ab_mem_libc, spare);
  }
}

/* --- leading --- */

/* What comes there is dealt with in the turn that follows. */
static void engine_ready(ab_watch *watch, uint32_t events) {
  (void)watch;
  (void)events;
}

/* Has the engine's poller wake the spare, or not any more. A spare that cannot be woken by it
 * cannot lead. */
static bool watch_engine(ab_spare *spare, bool watches) {
  if (watches == (spare->engine.events != 0)) return true;
  ab_poller *poller = ab_loop_poller(spare->runner.loop);
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
  return ab_lead_held(&spare->runner.server->lead, &spare->runner.seat);
}

/* Answers a call. */
static void come(ab_spare *spare) {
  ab_server *server = spare->runner.server;
  /* It is there, whatever it was called from. */
  ab_pulse_return(&spare->runner.seat.pulse);
  if (!ab_stalls_excuses(server) && watch_engine(spare, true) &&
      !ab_lead_claim(&server->lead, &spare->runner.seat)) {
    watch_engine(spare, false);
  }
  atomic_store(&spare->called, false);
}

static void collect_events(ab_server *server) {
  ab_poller *poller = server->poller;
  ab_poller_collect(poller);
  ab_poller_lock(poller);
  /* Without memory they stay collected; home finds them. */
  int err = ab_poller_dispatch_roaming(poller);
  (void)err;
  ab_poller_unlock(poller);
}

static bool spare_turn(void *ctx, ab_nsec now) {
  ab_spare *spare = ctx;
  ab_server *server = spare->runner.server;
  if (atomic_load(&spare->called)) come(spare);
  bool more = false;
  if (leads(spare)) {
    collect_events(server);
    more = ab_server_turn(&spare->runner, now);
  }
  if (!leads(spare)) {
    watch_engine(spare, false);
    more = false;
    /* Home may wait for the last fiber of a spare. */
    if (AB_UNLIKELY(server->draining)) ab_server_tell_leader(server);
  }
  return more || atomic_load(&spare->called);
}

static ab_nsec spare_deadline(void *ctx) {
  ab_spare *spare = ctx;
  ab_server *server = spare->runner.server;
  return ab_lead_is(&server->lead, &spare->runner.seat) ? ab_server_deadline(server) : 0;
}

static bool spare_done(void *ctx) {
  return ((ab_spare *)ctx)->runner.server->crew.ending;
}

static bool spare_given_up(void *ctx) {
  return ((ab_spare *)ctx)->runner.server->crew.abandoned;
}

static bool spare_contended(void *ctx) {
  return ab_hybrid_contended(&((ab_spare *)ctx)->runner);
}

static const ab_loop_client spare_client = {
    .turn = spare_turn,
    .deadline = spare_deadline,
    .done = spare_done,
    .given_up = spare_given_up,
    .contended = spare_contended,
};

/* --- running --- */

static VALUE run_loop_on(VALUE arg) {
  ab_loop_run(((ab_spare *)arg)->runner.loop);
  return Qnil;
}

static VALUE run_loop(VALUE arg) {
  ab_stray_guard(((ab_spare *)arg)->runner.server, run_loop_on, arg);
  return Qnil;
}

/* What ended the loop before its time concerns the process: home raises it. */
static void forward(ab_server *server, int state) {
  VALUE exception = rb_errinfo();
  if (RTEST(rb_obj_is_kind_of(exception, rb_eException))) {
    rb_set_errinfo(Qnil);
  } else if (server->crew.ending) {
    return;
  } else {
    exception = rb_exc_new_cstr(ab_error_class("Error"), "the thread of a spare loop was killed");
  }
  if (NIL_P(server->crew.forward)) server->crew.forward = exception;
  ab_server_tell_leader(server);
}

static void leave(ab_spare *spare) {
  ab_server *server = spare->runner.server;
  spare->over = true;
  atomic_store(&spare->called, false);
  ab_loop_detach(spare->runner.loop);
  ab_loop_set_pulse(spare->runner.loop, NULL);
  ab_native_end(&spare->runner);
  if (ab_server_forked(server)) return;
  ab_histogram_join(&server->lag, ab_loop_lag(spare->runner.loop));
  watch_engine(spare, false);
  ab_lead_part(&server->lead, &spare->runner.seat);
  if (server->crew.abandoned) ab__loop_close(spare->runner.loop);
}

static ab_spare *new_spare(ab_server *server, VALUE scheduler, VALUE pool) {
  ab_loop *loop = ab_loop_of(scheduler);
  ab_pool *fibers = ab_pool_of(pool);
  ab_spare *spare = ab_alloc_zero(&ab_mem_libc, sizeof *spare);
  char *scratch = spare ? ab_alloc(&ab_mem_libc, AB_SCRATCH_SIZE) : NULL;
  if (!scratch) {
    ab_free(&ab_mem_libc, spare);
    rb_memerror();
  }
  spare->scheduler = scheduler;
  spare->pool = pool;
  spare->engine = (ab_watch){.ready = engine_ready, .fd = ab_poller_fd(server->poller)};
  spare->runner = (ab_runner){
      .server = server,
      .host = &ab_host_native,
      .thread = rb_thread_current(),
      .loop = loop,
      .pool = fibers,
      .scratch = scratch,
      .scratch_capacity = AB_SCRATCH_SIZE,
  };
  ab_seat_init(&spare->runner.seat);
  atomic_init(&spare->called, true);
  ab_list_append(&server->crew.spares, &spare->link);
  server->crew.count++;
  return spare;
}

/* call-seq: run_spare(scheduler, pool) -> nil
 *
 * Serves on the calling thread, whose scheduler must be `scheduler`, beside the thread of #run,
 * when that is kept by a fiber; returns when the engine stops. What concerns the process is raised
 * there. */
static VALUE server_run_spare(VALUE self, VALUE scheduler, VALUE pool) {
  ab_server *server = ab_server_own(self);
  ab_crew *crew = &server->crew;
  if (!server->standby || crew->ending || crew->count >= crew->most) return Qnil;
  ab_spare *spare = new_spare(server, scheduler, pool);
  ab_loop_attach(spare->runner.loop, &spare_client, spare);
  ab_loop_set_pulse(spare->runner.loop, &spare->runner.seat.pulse);
  ab_native_begin(&spare->runner);
  ab_lead_join(&server->lead, &spare->runner.seat, ab_standby_bell(server->standby));
  atomic_store(&crew->made, 0);
  atomic_store(&crew->making, false);
  int state = 0;
  rb_protect(run_loop, (VALUE)spare, &state);
  bool forked = ab_server_forked(server);
  if (state && !forked) forward(server, state);
  leave(spare);
  RB_GC_GUARD(scheduler);
  RB_GC_GUARD(pool);
  /* A forked child goes on with its end; a thread that is killed, with its own. */
  if (state && (forked || !NIL_P(rb_errinfo()))) rb_jump_tag(state);
  return Qnil;
}

/* --- the crew --- */

/* A thread that is being made has this long to come; after it, or when it could not be made, there
 * is another try. */
#define MAKING_TIME AB_NSEC_PER_SEC

enum ab_call ab_crew_call(ab_server *server) {
  ab_crew *crew = &server->crew;
  ab_spare *idle = NULL;
  unsigned count = 0;
  bool called = false;
  pthread_mutex_lock(&server->lead.lock);
  ab_list_each (node, tmp, &server->lead.seats) {
    ab_seat *seat = AB_CONTAINER_OF(node, ab_seat, link);
    if (seat == &server->home.seat) continue;
    ab_spare *spare = spare_of(seat);
    count++;
    if (atomic_load(&spare->called)) called = true;
    /* One that only waits for the GVL is there as soon as a new one would be. */
    bool kept = atomic_load(&seat->pulse.beat) & 1 && !atomic_load(&seat->pulse.starved);
    if (!kept) idle = spare;
  }
  if (!called && idle) {
    atomic_store(&idle->called, true);
    ab_poller_wakeup(ab_loop_poller(idle->runner.loop));
  }
  pthread_mutex_unlock(&server->lead.lock);
  if (called || idle) return AB_CALL_HEARD;
  if (count >= crew->most) return AB_CALL_IN_VAIN;
  ab_nsec now = ab_clock_monotonic(), made = atomic_load(&crew->made);
  if (!made || now - made >= MAKING_TIME) {
    atomic_store(&crew->made, now);
    atomic_store(&crew->making, true);
    atomic_store(&crew->wanted, true);
  }
  return atomic_load(&crew->making) ? AB_CALL_MAKING : AB_CALL_IN_VAIN;
}

bool ab_crew_is_making(const ab_server *server) {
  const ab_crew *crew = &server->crew;
  if (AB_LIKELY(!atomic_load(&crew->making)) || crew->ending) return false;
  VALUE thread = rb_thread_current();
  for (long i = 0; i < RARRAY_LEN(crew->threads); i++) {
    if (RARRAY_AREF(crew->threads, i) != thread) continue;
    const ab_list *spares = &crew->spares;
    for (const ab_list *node = spares->next; node != spares; node = node->next) {
      if (AB_CONTAINER_OF(node, ab_spare, link)->runner.thread == thread) return true;
    }
    return false; /* this is the one that is being made */
  }
  return true;
}

static VALUE call_maker(VALUE arg) {
  return rb_funcall(((ab_server *)arg)->crew.maker, rb_intern("call"), 0);
}

static VALUE maker_ended(VALUE arg) {
  atomic_store(&((ab_server *)arg)->crew.making, false);
  return Qnil;
}

static VALUE run_maker(void *arg) {
  return rb_ensure(call_maker, (VALUE)arg, maker_ended, (VALUE)arg);
}

/* No Ruby code runs before the thread does. */
static VALUE make_thread(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  rb_ary_push(server->crew.threads, rb_thread_create(run_maker, server));
  return Qnil;
}

void ab_crew_make(ab_server *server) {
  ab_crew *crew = &server->crew;
  if (!atomic_exchange(&crew->wanted, false) || crew->ending || NIL_P(crew->maker)) return;
  if (ab_stalls_excuses(server)) { /* nobody has to come: it may be wanted again soon */
    atomic_store(&crew->making, false);
    atomic_store(&crew->made, 0);
    return;
  }
  int state = 0;
  rb_protect(make_thread, (VALUE)server, &state);
  if (!state) return;
  rb_set_errinfo(Qnil); /* there is no thread to be had; it is tried again later */
  atomic_store(&crew->making, false);
}

/* --- the keeper --- */

/* Who has the GVL makes a spare by a job, at once. But those that are kept may all be in calls that
 * wait without the GVL (flock, a client in C): then nobody runs jobs, and this thread does it. */

/* So long a job may take to be run. */
#define JOB_TIME (5 * AB_NSEC_PER_MS)

void ab_crew_rouse(ab_server *server) {
  ab_crew *crew = &server->crew;
  ab_nsec made = atomic_load(&crew->made);
  if (NIL_P(crew->keeper) || !atomic_load(&crew->wanted)) return;
  if (ab_clock_monotonic() - made >= JOB_TIME) ab_bell_ring(&crew->bell);
}

static void *await_bell(void *arg) {
  ab_crew *crew = arg;
  struct pollfd bell = {crew->bell.fd, POLLIN, 0};
  poll(&bell, 1, -1);
  ab_bell_hush(&crew->bell);
  return NULL;
}

static void wake_keeper(void *arg) {
  ab_bell_ring(&((ab_crew *)arg)->bell);
}

static VALUE keep(void *arg) {
  ab_server *server = arg;
  ab_crew *crew = &server->crew;
  while (!crew->ending) {
    rb_nogvl(await_bell, crew, wake_keeper, crew, 0);
    ab_crew_make(server);
  }
  return Qnil;
}

static VALUE make_keeper(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  server->crew.keeper = rb_thread_create(keep, server);
  return rb_funcall(server->crew.keeper, rb_intern("name="), 1, rb_str_new_cstr("abaca keeper"));
}

void ab_crew_begin(ab_server *server) {
  ab_crew *crew = &server->crew;
  crew->threads = rb_ary_new();
  crew->ending = crew->abandoned = false;
  if (crew->most == 0 || NIL_P(crew->maker) || ab_bell_init(&crew->bell) != AB_OK) return;
  /* Without it the first spare may have to wait. */
  ab_server_quietly(make_keeper, (VALUE)server);
  if (NIL_P(crew->keeper)) ab_bell_fini(&crew->bell);
}

void ab_crew_part(ab_server *server) {
  if (NIL_P(server->crew.keeper)) return;
  server->crew.keeper = Qnil;
  ab_bell_fini(&server->crew.bell);
}

void ab_crew_each(ab_server *server, void (*fn)(ab_runner *runner)) {
  fn(&server->home);
  ab_list_each (node, tmp, &server->crew.spares) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over) fn(&spare->runner);
  }
}

/* In a fiber, or on the way back to its loop, for want of the GVL. */
static bool is_away(const ab_runner *runner) {
  return atomic_load_explicit(&runner->seat.pulse.beat, memory_order_relaxed) & 1;
}

size_t ab_crew_busy(const ab_server *server) {
  size_t busy = ab_pool_busy(server->home.pool);
  const ab_list *spares = &server->crew.spares;
  for (const ab_list *node = spares->next; node != spares; node = node->next) {
    busy += ab_pool_busy(AB_CONTAINER_OF(node, ab_spare, link)->runner.pool);
  }
  return busy;
}

bool ab_crew_competes(const ab_server *server, const ab_runner *runner) {
  const ab_crew *crew = &server->crew;
  if (AB_LIKELY(crew->count == 0)) return false;
  if (runner != &server->home && is_away(&server->home)) return true;
  for (const ab_list *node = crew->spares.next; node != &crew->spares; node = node->next) {
    const ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (&spare->runner != runner && !spare->over && is_away(&spare->runner)) return true;
  }
  return false;
}

bool ab_crew_quiet(const ab_server *server) {
  const ab_list *spares = &server->crew.spares;
  for (const ab_list *node = spares->next; node != spares; node = node->next) {
    const ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over && !ab_loop_idle(spare->runner.loop)) return false;
  }
  return true;
}

void ab_crew_interrupt_others(ab_server *server, VALUE exception) {
  ab_list_each (node, tmp, &server->crew.spares) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over) ab_host_native.interrupt_others(&spare->runner, exception);
  }
}

void ab_crew_raise(ab_server *server) {
  VALUE exception = server->crew.forward;
  if (AB_LIKELY(NIL_P(exception))) return;
  server->crew.forward = Qnil;
  ab_stray_end_run(server, exception);
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

static void wake_all(ab_server *server) {
  ab_list_each (node, tmp, &server->crew.spares) {
    ab_spare *spare = AB_CONTAINER_OF(node, ab_spare, link);
    if (!spare->over) ab_poller_wakeup(ab_loop_poller(spare->runner.loop));
  }
}

int ab_crew_end(ab_server *server, bool abandon) {
  ab_crew *crew = &server->crew;
  crew->ending = true;
  crew->abandoned = abandon;
  if (NIL_P(crew->threads) || ab_server_forked(server)) return 0;
  wake_all(server);
  if (!NIL_P(crew->keeper)) ab_bell_ring(&crew->bell);
  int first = NIL_P(crew->keeper) ? 0 : await_end(crew->keeper, Qnil);
  for (long i = 0; i < RARRAY_LEN(crew->threads); i++) {
    VALUE thread = RARRAY_AREF(crew->threads, i);
    /* A fiber that computes, and nobody waits for, keeps its thread no longer than this. */
    int state = await_end(thread, abandon ? DBL2NUM(0.5) : Qnil);
    if (!first) first = state;
    if (!abandon) continue;
    ab_server_quietly(kill_thread, thread);
    state = await_end(thread, Qnil);
    if (!first) first = state;
  }
  crew->threads = Qnil;
  return first;
}

void ab_init_spare(VALUE cEngine) {
  rb_define_method(cEngine, "run_spare", server_run_spare, 2);
}
