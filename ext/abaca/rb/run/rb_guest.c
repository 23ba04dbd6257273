/* Guest mode: see rb_guest.h. A worker is on `idle` (last in, first out) or `busy` until its fiber
 * ends. It gets exactly one `unblock` per block: schedulers may take a second one for the end of
 * its next wait. The engine's own fiber may wake up too early. */
#include "rb/run/rb_guest.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <string.h>

#include "rb/pool/rb_scrub.h"
#include "rb/pool/rb_stack.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_line.h"
#include "rb/run/rb_clock.h"
#include "rb/run/rb_turn.h"

/* Idle fibers beyond these end. */
#define MAX_IDLE 256

struct ab_guest {
  VALUE self; /* the Abaca::Engine */
  ab_run *run;
  VALUE scheduler;
  ab_poller *poller;
  VALUE io;      /* an IO of the poller's descriptor, which does not own it */
  VALUE fiber;   /* that turns the engine */
  VALUE forward; /* what ab_guest_run has to raise */
  ab_list idle, busy;
  size_t live, idle_count;
  size_t max;              /* of `live`, those that are aside included */
  struct worker *starting; /* made, and not run yet */
  ID id_yield;
  bool yields;  /* the scheduler has the hook `yield`, which is cheaper than a timer */
  bool handed;  /* this turn has woken workers */
  bool waiting; /* the engine's fiber waits for the poller */
  bool ending;
};

typedef struct worker {
  ab_list link;
  ab_guest *guest;
  VALUE fiber;    /* nil until it has run */
  VALUE baseline; /* what the scheduler keeps on it */
  ab_taken taken; /* the request, if has_job */
  ab_call *call;
  bool has_job, blocked;
} worker;

/* --- life --- */

ab_guest *ab_guest_init(ab_run *run, VALUE scheduler, size_t max) {
  ab_guest *guest = ab_alloc_zero(&ab_mem_libc, sizeof *guest);
  if (!guest) rb_memerror();
  guest->self = run->rack.self;
  guest->run = run;
  guest->scheduler = scheduler;
  guest->io = guest->fiber = guest->forward = Qnil;
  guest->max = max;
  guest->id_yield = rb_intern("yield");
  guest->yields = rb_respond_to(scheduler, guest->id_yield);
  ab_list_init(&guest->idle);
  ab_list_init(&guest->busy);
  guest->poller = ab_poller_init(&ab_mem_libc);
  if (guest->poller) return guest;
  ab_free(&ab_mem_libc, guest);
  rb_sys_fail("cannot make a poller");
}

static void free_workers(ab_list *list) {
  ab_list *node;
  while ((node = ab_list_shift(list))) {
    ab_free(&ab_mem_libc, AB_CONTAINER_OF(node, worker, link));
  }
}

void ab_guest_fini(ab_guest *guest) {
  if (!guest) return;
  ab_poller_fini(guest->poller);
  free_workers(&guest->idle);
  free_workers(&guest->busy);
  ab_free(&ab_mem_libc, guest);
}

static void mark_workers(const ab_list *list) {
  ab_list_each (node, next, list) {
    const worker *w = AB_CONTAINER_OF(node, worker, link);
    rb_gc_mark(w->fiber);
    rb_gc_mark(w->baseline);
    if (w->has_job) ab_taken_mark(&w->taken);
  }
}

void ab_guest_mark(const ab_guest *guest) {
  rb_gc_mark(guest->scheduler);
  rb_gc_mark(guest->io);
  rb_gc_mark(guest->fiber);
  rb_gc_mark(guest->forward);
  mark_workers(&guest->idle);
  mark_workers(&guest->busy);
}

ab_poller *ab_guest_poller(const ab_guest *guest) {
  return guest->poller;
}

static void wake_engine(ab_guest *guest) {
  if (guest->waiting) ab_poller_wakeup(guest->poller);
}

/* --- workers --- */

static VALUE block(VALUE arg) {
  worker *w = (worker *)arg;
  return rb_fiber_scheduler_block(w->guest->scheduler, w->guest->self, Qnil);
}

static void unblock(worker *w) {
  if (!w->blocked) return;
  w->blocked = false;
  rb_fiber_scheduler_unblock(w->guest->scheduler, w->guest->self, w->fiber);
}

static void lie_down(worker *w) {
  ab_list_remove(&w->link);
  ab_list_prepend(&w->guest->idle, &w->link);
  w->guest->idle_count++;
}

static void stand_up(worker *w) {
  ab_list_remove(&w->link);
  ab_list_append(&w->guest->busy, &w->link);
  w->guest->idle_count--;
}

static void guest_retire(worker *w) {
  if (w->fiber == rb_fiber_current()) ab_waiting_off_fiber();
  ab_list_remove(&w->link);
  w->guest->live--;
  ab_free(&ab_mem_libc, w);
}

/* False if the fiber has to end: with the server, or when code of a former job raised in it. */
static bool await_job(worker *w) {
  ab_guest *guest = w->guest;
  int state = 0;
  if (guest->ending || guest->idle_count >= MAX_IDLE) return false;
  lie_down(w);
  ab_stack_wipe(); /* what is kept for an idle fiber is kept for long */
  w->blocked = true;
  while (w->blocked && state == 0) rb_protect(block, (VALUE)w, &state);
  w->blocked = false;
  if (!w->has_job) stand_up(w); /* so that it is counted once */
  if (state == 0) return w->has_job;
  if (ab_is_exception(rb_errinfo())) {
    rb_set_errinfo(Qnil);
    return w->has_job;
  }
  /* A kill: the fiber unwinds to its end. */
  if (w->has_job) ab_serve_refuse(&guest->run->main.runner, &w->taken, AB_REJECT_NO_FIBER);
  guest_retire(w);
  wake_engine(guest);
  rb_jump_tag(state);
}

static VALUE guest_serve(VALUE arg) {
  worker *w = (worker *)arg;
  ab_run *run = w->guest->run;
  ab_taken taken = w->taken;
  w->has_job = false;
  if (!run->ending.forced) w->call = ab_call_take(&run->rack);
  if (!w->call) {
    ab_serve_refuse(&run->main.runner, &taken, AB_REJECT_NO_FIBER);
    return Qnil;
  }
  run->main.runner.moment = 0; /* others have run since */
  ab_serve_request(&run->main.runner, &taken, w->call);
  RB_GC_GUARD(taken.env);
  return Qnil;
}

static VALUE guest_scrub(VALUE arg) {
  worker *w = (worker *)arg;
  return ab__scrub_fiber(w->fiber, w->baseline);
}

/* Returns the state of a kill, or 0; all else concerns the process (in a forked child: `exit`). */
static int guest_ended(ab_guest *guest, int state) {
  if (AB_LIKELY(state == 0)) return 0;
  VALUE exception = rb_errinfo();
  if (!ab_is_exception(exception)) return state;
  if (ab_rack_forked(&guest->run->rack)) ab_end_child(state);
  rb_set_errinfo(Qnil);
  guest->forward = exception;
  return 0;
}

/* A thread that is being killed runs its scheduler once more, some as long as there are fibers. */
static void end_with_thread(ab_guest *guest) {
  VALUE status = rb_funcall(rb_thread_current(), rb_intern("status"), 0);
  if (!RB_TYPE_P(status, T_STRING) || strcmp(RSTRING_PTR(status), "aborting") != 0) return;
  guest->run->ending.halt_requested = 1;
  /* Also where the engine's turn has just started this fiber and has looked for a halt already. */
  if (guest->poller) ab_poller_wakeup(guest->poller);
}

static bool guest_run_job(worker *w) {
  ab_guest *guest = w->guest;
  int state;
  rb_protect(guest_serve, (VALUE)w, &state);
  w->call = NULL;
  int killed = guest_ended(guest, state);
  wake_engine(guest); /* the answer opens ways and sets deadlines */
  VALUE clean = Qfalse;
  if (!killed) {
    clean = rb_protect(guest_scrub, (VALUE)w, &state);
    killed = guest_ended(guest, state);
    rb_set_errinfo(Qnil);
  }
  if (AB_LIKELY(!killed)) return clean == Qtrue;
  end_with_thread(guest);
  guest_retire(w);
  rb_jump_tag(killed);
}

static VALUE guest_worker_main(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  worker *w = (worker *)data;
  ab_guest *guest = w->guest;
  /* Keeps the engine alive as long as this stack. */
  volatile VALUE self = guest->self;
  if (guest->starting == w) guest->starting = NULL;
  w->fiber = rb_fiber_current();
  w->baseline = ab__scrub_baseline(w->fiber);
  ab_waiting_on_fiber(&w->call);
  while (guest_run_job(w) && await_job(w)) continue;
  guest_retire(w);
  wake_engine(guest); /* there is room for one more */
  RB_GC_GUARD(self);
  return Qnil;
}

/* --- the executor --- */

static ab_guest *guest_of(const ab_rack *rack) {
  return ab_run_of(rack)->guest;
}

static bool guest_available(const ab_runner *runner) {
  const ab_run *run = ab_run_of(runner->rack);
  const ab_guest *guest = run->guest;
  if (guest->idle_count == 0 && guest->live >= guest->max) return false;
  size_t busy = guest->live - guest->idle_count;
  return busy < (size_t)run->max_fibers + run->slow.fibers.aside_count;
}

static VALUE schedule(VALUE arg) {
  return rb_block_call(rb_path2class("Fiber"), rb_intern("schedule"), 0, NULL, guest_worker_main,
                       arg);
}

/* Makes a worker for the request. False if none can be had: then the request is put back. */
static bool start_worker(ab_guest *guest, ab_taken *taken) {
  worker *w = guest->live < guest->max ? ab_alloc_zero(&ab_mem_libc, sizeof *w) : NULL;
  if (!w) {
    ab_turn_put_back(&guest->run->main, taken);
    return false;
  }
  *w = (worker){.guest = guest, .fiber = Qnil, .baseline = Qnil, .taken = *taken, .has_job = true};
  ab_list_init(&w->link);
  ab_list_append(&guest->busy, &w->link);
  guest->live++;
  guest->starting = w;
  int state;
  rb_protect(schedule, (VALUE)w, &state);
  if (AB_LIKELY(state == 0)) return true;
  if (guest->starting != w) rb_jump_tag(state); /* it runs; this is about the engine's own fiber */
  guest->starting = NULL;
  guest_retire(w);
  ab_turn_put_back(&guest->run->main, taken);
  if (!ab_is_exception(rb_errinfo())) rb_jump_tag(state);
  /* The kernel has no stack for it: there will not be more of them than there are now. */
  rb_set_errinfo(Qnil);
  guest->max = guest->live > 0 ? guest->live : 1;
  return false;
}

static bool guest_start(ab_runner *runner) {
  ab_guest *guest = guest_of(runner->rack);
  ab_taken taken = ab_turn_taken(ab_driver_of(runner));
  int state = ab_turn_keep(&guest->run->main, &taken);
  if (AB_UNLIKELY(state)) {
    ab_turn_put_back(ab_driver_of(runner), &taken);
    if (!ab_is_exception(rb_errinfo())) rb_jump_tag(state);
    rb_set_errinfo(Qnil);
    return false;
  }
  if (ab_list_empty(&guest->idle)) return start_worker(guest, &taken);
  worker *w = AB_CONTAINER_OF(guest->idle.next, worker, link);
  w->taken = taken;
  w->has_job = true;
  stand_up(w);
  unblock(w);
  guest->handed = true;
  RB_GC_GUARD(taken.env);
  return true;
}

typedef struct guest_wait {
  ab_list link; /* in call->waits */
  ab_call *call;
  VALUE fiber, exception;
  bool woken;
  bool shown;     /* it is the request's own, and in its row; ... */
  uint8_t before; /* ... as which it was in a wait already */
} guest_wait;

static VALUE guest_wait_until_woken(VALUE arg) {
  guest_wait *wait = (guest_wait *)arg;
  VALUE scheduler = guest_of(wait->call->rack)->scheduler, env = wait->call->env;
  while (!wait->woken) rb_fiber_scheduler_block(scheduler, env, Qnil);
  return Qnil;
}

static VALUE guest_wait_ended(VALUE arg) {
  guest_wait *wait = (guest_wait *)arg;
  ab_list_remove(&wait->link);
  if (wait->shown) ab_sight_go_on(wait->call, wait->before);
  return Qnil;
}

static bool guest_can_wait(const ab_runner *runner) {
  return rb_thread_current() == runner->thread && !NIL_P(rb_fiber_scheduler_current());
}

static void guest_wait_for_call(ab_call *call, enum ab_wait_kind kind) {
  if (!guest_can_wait(call->runner)) {
    rb_raise(rb_path2class("FiberError"), "only a fiber of the server's scheduler can wait here");
  }
  guest_wait wait = {.call = call, .fiber = rb_fiber_current(), .exception = Qnil};
  ab_list_append(&call->waits, &wait.link);
  wake_engine(guest_of(call->rack));
  bool own = wait.fiber == call->fiber;
  if (own) wait.before = ab_sight_wait(call, ab_state_of_wait(kind), NULL);
  wait.shown = own;
  rb_ensure(guest_wait_until_woken, (VALUE)&wait, guest_wait_ended, (VALUE)&wait);
  if (!NIL_P(wait.exception)) rb_exc_raise(wait.exception);
}

static guest_wait *next_wait(const ab_call *call) {
  const ab_list *waits = &call->waits;
  for (ab_list *node = waits->next; node != waits; node = node->next) {
    guest_wait *wait = AB_CONTAINER_OF(node, guest_wait, link);
    if (!wait->woken) return wait;
  }
  return NULL;
}

/* Neither the wait nor its call need be there afterwards. */
static void guest_wake(guest_wait *wait) {
  wait->woken = true;
  rb_fiber_scheduler_unblock(guest_of(wait->call->rack)->scheduler, wait->call->env, wait->fiber);
}

static bool wake_one(ab_call *call) {
  guest_wait *wait = next_wait(call);
  if (wait) guest_wake(wait);
  return wait != NULL;
}

/* --- exceptions from outside --- */

typedef struct interruption {
  ab_guest *guest;
  VALUE handle, fiber, exception;
} interruption;

/* Lets every other fiber that can run do so. */
static void guest_pass(ab_guest *guest) {
  if (guest->yields) {
    rb_funcallv(guest->scheduler, guest->id_yield, 0, NULL);
  } else {
    rb_fiber_scheduler_kernel_sleep(guest->scheduler, INT2FIX(0));
  }
}

static VALUE raise_in_fiber(VALUE arg) {
  interruption *i = (interruption *)arg;
  VALUE scheduler = i->guest->scheduler;
  ID interrupt = rb_intern("fiber_interrupt");
  if (rb_respond_to(scheduler, interrupt)) {
    return rb_funcall(scheduler, interrupt, 2, i->fiber, i->exception);
  }
  /* Where fibers are switched by transfer, control goes from that fiber to the scheduler's loop and
   * not back to this one, unless this one is in the queue. */
  rb_fiber_scheduler_unblock(scheduler, i->guest->self, i->guest->fiber);
  if (!ab_call_or_null(i->handle)) return Qnil;
  return rb_funcall(i->fiber, rb_intern("raise"), 1, i->exception);
}

/* Waits of our own end in order; the worker's own fiber may be in one of them. */
static bool interrupt_waits(ab_call *call, const interruption *i) {
  bool found = false;
  ab_list_each (node, next, &call->waits) {
    guest_wait *wait = AB_CONTAINER_OF(node, guest_wait, link);
    if (wait->fiber == i->fiber) found = true;
    if (NIL_P(wait->exception)) wait->exception = i->exception;
  }
  ab_call_wake(call);
  return found;
}

/* False if the fiber cannot be raised in: it waits for one that it has resumed (Ruby 3.1), say. */
static bool interrupt_worker_of(ab_guest *guest, const worker *w, VALUE exception) {
  interruption i = {guest, w->call->handle, w->fiber, exception};
  if (interrupt_waits(w->call, &i)) return true;
  if (!ab_call_or_null(i.handle)) return true; /* its fiber may be at the next request */
  int state = 0;
  rb_protect(raise_in_fiber, (VALUE)&i, &state);
  if (!state) return true;
  if (!RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_path2class("FiberError")))) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  return false;
}

/* Fibers about to run get past the end of their wait: an exception would hit the next one. */
static void guest_settle(ab_runner *runner) {
  guest_pass(guest_of(runner->rack));
}

static bool guest_interrupt(ab_call *call, VALUE exception) {
  ab_guest *guest = guest_of(call->rack);
  ab_list_each (node, next, &guest->busy) {
    worker *w = AB_CONTAINER_OF(node, worker, link);
    if (w->call == call) return interrupt_worker_of(guest, w, exception);
  }
  return false;
}

const ab_executor ab_executor_guest = {
    .mode = AB_MODE_FIBER,
    .available = guest_available,
    .start = guest_start,
    .can_wait = guest_can_wait,
    .wait = guest_wait_for_call,
    .wake_one = wake_one,
    .settle = guest_settle,
    .interrupt = guest_interrupt,
    .in_turns = false,
};

/* --- the engine's fiber --- */

static void wait_for_events(ab_guest *guest, ab_nsec deadline) {
  VALUE timeout = Qnil;
  if (deadline) {
    ab_nsec now = ab_clock_monotonic();
    if (deadline <= now) {
      guest_pass(guest);
      return;
    }
    timeout = DBL2NUM((double)(deadline - now) / (double)AB_NSEC_PER_SEC);
  }
  guest->waiting = true;
  rb_io_wait(guest->io, INT2FIX(RUBY_IO_READABLE), timeout);
  guest->waiting = false;
}

static void guest_collect_events(ab_poller *poller) {
  ab_poller_wait(poller, 0);
  ab_poller_lock(poller);
  ab_poller_dispatch(poller);
  ab_poller_unlock(poller);
}

/* Once: the run that raises it may go on, to end in order. */
static void raise_forwarded(ab_guest *guest) {
  VALUE exception = guest->forward;
  guest->forward = Qnil;
  if (!NIL_P(exception)) rb_exc_raise(exception);
}

void ab_guest_run(ab_guest *guest, const ab_loop_client *client, void *ctx) {
  int fd = ab_poller_fd(guest->poller);
  if (fd < 0) rb_sys_fail("no descriptor to wait for");
  VALUE options = rb_hash_new();
  rb_hash_aset(options, ID2SYM(rb_intern("autoclose")), Qfalse);
  VALUE argv[] = {INT2NUM(fd), rb_str_new_cstr("rb"), options};
  guest->io = rb_funcallv_kw(rb_cIO, rb_intern("for_fd"), 3, argv, RB_PASS_KEYWORDS);
  guest->fiber = rb_fiber_current();
  ab_clock_attach(&guest->run->main);
  ab_nsec heedless = 0; /* since then the poller was not looked at, as far as we can know */
  for (;;) {
    guest->waiting = false; /* also when a wait was left by an exception that was rescued */
    guest->handed = false;
    /* A forked child that waits for something of its own must not serve for its parent. */
    if (AB_UNLIKELY(ab_rack_forked(&guest->run->rack))) return;
    guest_collect_events(guest->poller);
    ab_nsec now = ab_clock_monotonic();
    if (heedless && now > heedless) ab_histogram_add(&guest->run->lag, now - heedless);
    ab_runner *runner = &guest->run->main.runner;
    ab_line_shows(runner, AB_LOOP_STATE_BUSY, NULL, now);
    if (runner->line) ab_loop_line_tick(runner->line);
    bool more = client->turn(ctx, now);
    raise_forwarded(guest);
    if (client->done(ctx) && !more) return;
    if (runner->line) ab_line_shows(runner, AB_LOOP_STATE_IDLE, NULL, ab_clock_monotonic());
    /* Workers that were woken answer before the next turn, which then sends it all. */
    if (more || guest->handed) {
      heedless = now;
      guest_pass(guest);
    } else {
      heedless = client->deadline(ctx);
      wait_for_events(guest, heedless);
    }
  }
}

static worker *next_idle(const ab_guest *guest) {
  for (ab_list *node = guest->idle.next; node != &guest->idle; node = node->next) {
    worker *w = AB_CONTAINER_OF(node, worker, link);
    if (w->blocked) return w;
  }
  return NULL;
}

/* Of those that are woken some may end at once. */
static VALUE end_idle(VALUE guest) {
  for (worker *w; (w = next_idle((const ab_guest *)guest));) unblock(w);
  return Qnil;
}

void ab_guest_end(ab_guest *guest) {
  guest->ending = true;
  guest->waiting = false;
  guest->io = Qnil;
  ab_poller_fini(guest->poller);
  guest->poller = NULL;
  int state;
  rb_protect(end_idle, (VALUE)guest, &state);
  if (state) rb_set_errinfo(Qnil); /* a scheduler that is closed: its fibers never run again */
}
