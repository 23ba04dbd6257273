/* The threads of a gang: how they start, get their requests and end. See rb_gang.h.
 *
 * A thread's hand is on gang->hands from its start to its end, and on gang->idle while it waits for
 * work. Lists with Ruby objects in them change with the GVL only, so that the GC may walk them.
 */
#include "rb/server/rb_gang_parts.h"

#include <errno.h>
#include <ruby/fiber/scheduler.h>
#include <time.h>

#include "rb/pool/rb_scrub.h"
#include "rb/pool/rb_stack.h"
#include "rb/server/rb_helm.h"

/* Threads that are broken off get so long to end by the exception, and then by the kill. */
#define FORCE_TIME (5 * AB_NSEC_PER_SEC)
#define KILL_TIME  AB_NSEC_PER_SEC
/* Seconds between two looks at a thread. */
#define JOIN_PAUSE 0.005

/* --- life --- */

int ab__gang_init_cond(pthread_cond_t *call) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  int err = pthread_cond_init(call, &attr);
  pthread_condattr_destroy(&attr);
  return err;
}

static void init_hand(ab_hand *hand, ab_gang *gang) {
  hand->gang = gang;
  hand->runner.server = gang->server;
  hand->runner.host = &ab_host_thread;
  hand->runner.thread = Qnil;
  ab_seat_init(&hand->runner.seat);
  ab_list_init(&hand->link);
  ab_list_init(&hand->idle_link);
  ab__gang_init_cond(&hand->call);
}

ab_gang *ab_gang_init(ab_server *server, const ab_gang_options *options) {
  ab_gang *gang = ab_alloc_zero(&ab_mem_libc, sizeof(*gang));
  if (!gang) rb_memerror();
  gang->server = server;
  gang->options = *options;
  gang->forward = gang->threads = gang->mode_key = gang->mode_name = Qnil;
  ab_list_init(&gang->hands);
  ab_list_init(&gang->jobs);
  ab_list_init(&gang->idle);
  ab_list_init(&gang->retired);
  pthread_mutex_init(&gang->lock, NULL);
  init_hand(&gang->watch, gang);
  gang->leader.server = server;
  gang->leader.thread = Qnil;
  ab_seat_init(&gang->leader.seat);
  return gang;
}

void ab_gang_fini(ab_gang *gang) {
  if (!gang) return;
  for (ab_list *node; (node = ab_list_shift(&gang->jobs));) {
    ab_free(&ab_mem_libc, AB_CONTAINER_OF(node, ab_job, link));
  }
  /* Only when the process exits in the middle of a run do any of them have a thread. */
  ab_list_splice(&gang->retired, &gang->hands);
  for (ab_list *node; (node = ab_list_shift(&gang->retired));) {
    ab_hand *hand = AB_CONTAINER_OF(node, ab_hand, link);
    ab_free(&ab_mem_libc, hand->job);
    ab_free(&ab_mem_libc, hand->runner.scratch);
    ab_free(&ab_mem_libc, hand);
  }
  if (!ab_server_forked(gang->server)) { /* there somebody who does not exist may hold the lock */
    pthread_cond_destroy(&gang->watch.call);
    pthread_mutex_destroy(&gang->lock);
  }
  ab_free(&ab_mem_libc, gang);
}

void ab_gang_mark(const ab_gang *gang) {
  rb_gc_mark(gang->forward);
  rb_gc_mark(gang->threads);
  rb_gc_mark(gang->mode_key);
  rb_gc_mark(gang->mode_name);
  ab_list_each (node, next, &gang->jobs) {
    rb_gc_mark(AB_CONTAINER_OF(node, ab_job, link)->taken.env);
  }
  ab_list_each (node, next, &gang->hands) {
    const ab_hand *hand = AB_CONTAINER_OF(node, ab_hand, link);
    rb_gc_mark(hand->runner.thread);
    if (hand->job) rb_gc_mark(hand->job->taken.env);
  }
}

/* --- how many --- */

/* Those that are aside do not count. */
static size_t most_live(const ab_gang *gang) {
  return (size_t)gang->options.max + gang->server->slow.threads.aside_count;
}

bool ab__gang_is_grown(const ab_gang *gang) {
  return gang->live >= most_live(gang);
}

bool ab__gang_has_surplus(const ab_gang *gang) {
  return gang->live > most_live(gang);
}

unsigned ab_gang_most(const ab_gang *gang) {
  return gang->options.max;
}

bool ab_gang_has_jobs(const ab_gang *gang) {
  return gang->job_count > 0;
}

size_t ab_gang_wanted(const ab_gang *gang) {
  if (gang->led) {
    if (!ab__helm_is_full(gang)) return 0;
    ab_engine_stats stats = ab_engine_get_stats(gang->server->engine);
    return stats.waiting - stats.held;
  }
  return ab__gang_is_grown(gang) && gang->starting == 0 ? gang->job_count : 0;
}

/* --- work for them --- */

/* Gives the job to a thread that waits for one. The lock is held: who is about to wait either is
 * found here, or finds the job. */
static bool give(ab_gang *gang, ab_job *job) {
  ab_list *node = ab__gang_has_surplus(gang) ? NULL : ab_list_shift(&gang->idle);
  if (!node) return false;
  ab_hand *hand = AB_CONTAINER_OF(node, ab_hand, idle_link);
  hand->job = job;
  gang->given++;
  pthread_cond_signal(&hand->call);
  return true;
}

/* Has an idle thread look for jobs that wait, if one may run. */
static void call_idle(ab_gang *gang) {
  if (gang->job_count == 0 || ab__gang_has_surplus(gang)) return;
  ab__gang_lock(gang);
  if (!ab_list_empty(&gang->idle)) {
    pthread_cond_signal(&AB_CONTAINER_OF(gang->idle.next, ab_hand, idle_link)->call);
  }
  ab__gang_unlock(gang);
}

/* Its request waits for a thread, or has one: who goes away meanwhile has asked nothing. */
static void hand_over(ab_gang *gang, ab_job *job, bool waits) {
  ab_engine *engine = gang->server->engine;
  job->waits = waits;
  ab_engine_lock(engine);
  ab_conn_hand_over(job->taken.conn, waits);
  ab_engine_unlock(engine);
}

/* Gives the job away, or has it wait: as the first one, if it has waited already. */
static void place(ab_gang *gang, ab_job *job, bool first) {
  ab__gang_lock(gang);
  bool given = give(gang, job);
  if (!given) {
    ab_list_insert_between(&job->link, first ? &gang->jobs : gang->jobs.prev,
                           first ? gang->jobs.next : &gang->jobs);
    gang->job_count++;
    gang->queued += !first;
    if (job->until && (gang->due == 0 || job->until < gang->due)) gang->due = job->until;
  }
  ab__gang_unlock(gang);
  if (!given && ab__gang_is_grown(gang)) hand_over(gang, job, true);
}

/* --- waiting --- */

bool ab__gang_sleep(ab_gang *gang, pthread_cond_t *call, ab_nsec time) {
  ab_nsec end = ab_clock_monotonic() + time;
  struct timespec ts = {.tv_sec = (time_t)(end / AB_NSEC_PER_SEC),
                        .tv_nsec = (long)(end % AB_NSEC_PER_SEC)};
  return pthread_cond_timedwait(call, &gang->lock, &ts) != ETIMEDOUT;
}

static void interrupt_hand(void *arg) {
  ab_hand *hand = arg;
  ab__gang_lock(hand->gang);
  hand->interrupted = true;
  pthread_cond_signal(&hand->call);
  ab__gang_unlock(hand->gang);
}

static void *wait_for_job(void *arg) {
  ab_hand *hand = arg;
  ab_gang *gang = hand->gang;
  ab__gang_lock(gang);
  bool in_time = true;
  ab_list_prepend(&gang->idle, &hand->idle_link);
  while (in_time && gang->job_count == 0 && !hand->job && !hand->interrupted && !gang->ending) {
    in_time = ab__gang_sleep(gang, &hand->call, AB_GANG_IDLE_TIME);
  }
  ab_list_remove(&hand->idle_link);
  ab__gang_unlock(gang);
  hand->late = !in_time;
  return NULL;
}

/* The oldest request that waits for a thread, or the one that the hand was given. */
static ab_job *take_job(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  ab_job *job = hand->job;
  hand->job = NULL;
  if (job) gang->given--;
  if (job) return job;
  ab_list *node = ab_list_shift(&gang->jobs);
  if (!node) return NULL;
  gang->job_count--;
  job = AB_CONTAINER_OF(node, ab_job, link);
  if (job->waits) hand_over(gang, job, false);
  return job;
}

/* Of its own frame nothing is left while the thread waits. */
static AB_NOINLINE void do_job(ab_hand *hand, ab_job *job) {
  ab_taken taken = job->taken;
  ab_free(&ab_mem_libc, job);
  ab__gang_serve(hand, &taken);
  RB_GC_GUARD(taken.env);
}

/* Returns false when the thread has to end. */
static bool work(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  ab_job *job = take_job(hand);
  if (job) {
    do_job(hand, job);
    return !ab__gang_has_surplus(gang);
  }
  if (gang->ending) return false;
  hand->interrupted = hand->late = false;
  ab_stack_wipe(); /* what is kept for an idle thread is kept for long */
  rb_nogvl(wait_for_job, hand, interrupt_hand, hand, RB_NOGVL_INTR_FAIL);
  rb_thread_check_ints();
  return !hand->late || hand->job || gang->live <= gang->options.min;
}

/* --- one request --- */

typedef struct serving {
  ab_hand *hand;
  const ab_taken *taken;
} serving;

static VALUE serve(VALUE arg) {
  serving *s = (serving *)arg;
  ab_server_serve(&s->hand->runner, s->taken, s->hand->exchange);
  return Qnil;
}

/* What concerns the process is for the thread that called run. In a forked child that is this one.
 * Returns the state of a kill, which goes on. */
static int ended(ab_gang *gang, int state) {
  if (AB_LIKELY(!state)) return 0;
  VALUE exception = rb_errinfo();
  if (!RTEST(rb_obj_is_kind_of(exception, rb_eException))) return state;
  if (ab_server_forked(gang->server)) ab_server_end_child(state);
  rb_set_errinfo(Qnil);
  bool short_of_memory = RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError)); /* our own code */
  if (!ab_server_is_fatal(exception) && !short_of_memory) return 0;
  gang->forward = exception;
  ab__gang_lock(gang);
  gang->told = true;
  pthread_cond_signal(&gang->watch.call);
  ab__gang_unlock(gang);
  if (gang->server->poller) ab_poller_wakeup(gang->server->poller);
  return 0;
}

static void *wait_for_raisers(void *arg) {
  ab_hand *hand = arg;
  ab__gang_lock(hand->gang);
  while (hand->raising > 0 && !hand->interrupted) {
    pthread_cond_wait(&hand->call, &hand->gang->lock);
  }
  ab__gang_unlock(hand->gang);
  return NULL;
}

static VALUE await_exceptions(VALUE arg) {
  ab_hand *hand = (ab_hand *)arg;
  while (hand->raising > 0) {
    hand->interrupted = false;
    rb_nogvl(wait_for_raisers, hand, interrupt_hand, hand, RB_NOGVL_INTR_FAIL);
    rb_thread_check_ints();
  }
  rb_thread_check_ints();
  return Qnil;
}

/* An exception that was sent to the request and has not reached it, or is about to be sent by a
 * thread that has other things to do first, must not hit the next one. */
static int discard_exceptions(ab_hand *hand) {
  for (;;) {
    int state = 0;
    rb_protect(await_exceptions, (VALUE)hand, &state);
    hand->raised = false;
    if (AB_LIKELY(!state)) return 0;
    int killed = ended(hand->gang, state);
    if (killed) return killed;
  }
}

static VALUE scrub(VALUE fiber) {
  VALUE thread = rb_thread_current();
  VALUE names = rb_funcall(thread, rb_intern("thread_variables"), 0);
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    rb_funcall(thread, rb_intern("thread_variable_set"), 2, RARRAY_AREF(names, i), Qnil);
  }
  return ab__scrub_fiber(fiber, Qnil);
}

void ab__gang_serve(ab_hand *hand, const ab_taken *taken) {
  ab_gang *gang = hand->gang;
  ab_server *server = gang->server;
  if (AB_UNLIKELY(server->forced)) {
    ab_server_refuse(&hand->runner, taken, AB_REJECT_SHUTDOWN);
    ab__gang_wake_turn(server);
    return;
  }
  hand->exchange = ab_exchange_take(server);
  if (AB_UNLIKELY(!hand->exchange)) {
    ab_server_refuse(&hand->runner, taken, AB_REJECT_NO_FIBER);
    ab__gang_wake_turn(server);
    return;
  }
  serving s = {hand, taken};
  gang->busy++;
  if (gang->led) ab__helm_begin(hand);
  int state = 0;
  rb_protect(serve, (VALUE)&s, &state);
  int killed = ended(gang, state);
  if (AB_UNLIKELY(killed && ab_server_forked(server))) rb_jump_tag(killed);
  hand->exchange = NULL;
  gang->busy--;
  if (AB_UNLIKELY(hand->raising > 0 || hand->raised) && !killed) killed = discard_exceptions(hand);
  if (gang->options.clean && !killed) {
    rb_protect(scrub, rb_fiber_current(), &state);
    killed = ended(gang, state);
  }
  if (!gang->led || !ab__helm_end(hand)) ab__gang_wake_turn(server);
  if (AB_UNLIKELY(killed)) rb_jump_tag(killed);
}

void ab__gang_wake_turn(ab_server *server) {
  ab_engine_lock(server->engine);
  /* Who stops waits for the last request, too. */
  bool needed = server->draining || ab_engine_needs_turn(server->engine);
  ab_engine_unlock(server->engine);
  if (needed && server->poller) ab_poller_wakeup(server->poller);
}

typedef struct raising {
  ab_hand *hand;
  VALUE thread, exception;
} raising;

static VALUE raise_in_thread(VALUE arg) {
  const raising *r = (const raising *)arg;
  return rb_funcall(r->thread, rb_intern("raise"), 1, r->exception);
}

static VALUE has_raised(VALUE arg) {
  ab_hand *hand = ((raising *)arg)->hand;
  hand->raised = true;
  ab__gang_lock(hand->gang);
  hand->raising--;
  pthread_cond_signal(&hand->call);
  ab__gang_unlock(hand->gang);
  return Qnil;
}

/* The call may let the thread run on, to the end of its request: there it waits for us. */
void ab__gang_raise(ab_hand *hand, VALUE exception) {
  raising r = {hand, hand->runner.thread, exception};
  ab__gang_lock(hand->gang);
  hand->raising++;
  ab__gang_unlock(hand->gang);
  rb_ensure(raise_in_thread, (VALUE)&r, has_raised, (VALUE)&r);
}

/* --- threads --- */

/* The hand is nobody's any more. */
static void remove_hand(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (!hand->begun) gang->starting--;
  gang->live--;
  hand->runner.thread = Qnil;
  hand->job = NULL;
  ab_list_remove(&hand->link);
  ab_list_prepend(&gang->retired, &hand->link);
}

/* The hand's thread ends; what it was given goes to another one. */
static VALUE retire(VALUE arg) {
  ab_hand *hand = (ab_hand *)arg;
  ab_gang *gang = hand->gang;
  if (ab_server_forked(gang->server)) return Qnil; /* the hands are the parent's */
  ab__helm_leave(hand);
  ab_job *job = hand->job;
  if (job) gang->given--;
  remove_hand(hand);
  if (job) place(gang, job, true);
  call_idle(gang);
  if (gang->job_count > 0 && !gang->ending) ab__gang_grow(gang);
  return Qnil;
}

typedef struct hand_turn {
  ab_hand *hand;
  bool stays;
} hand_turn;

static VALUE run_turn(VALUE arg) {
  hand_turn *t = (hand_turn *)arg;
  t->stays = t->hand->gang->led ? ab__helm_turn(t->hand) : work(t->hand);
  return Qnil;
}

/* A stray exception, for a thread that somebody has kept a reference to, ends nothing. */
static VALUE run_hand(VALUE arg) {
  ab_hand *hand = (ab_hand *)arg;
  ab_gang *gang = hand->gang;
  int state = 0;
  rb_protect(scrub, rb_fiber_current(), &state); /* what its maker had is nothing of its own */
  int killed = ended(gang, state);
  hand->begun = true;
  gang->starting--;
  hand_turn t = {hand, true};
  while (t.stays && !killed) {
    rb_protect(run_turn, (VALUE)&t, &state);
    killed = ended(gang, state);
  }
  if (AB_UNLIKELY(killed)) rb_jump_tag(killed);
  return Qnil;
}

static VALUE hand_main(void *arg) {
  ab_hand *hand = arg;
  /* Keeps the engine alive as long as this stack. */
  volatile VALUE self = hand->gang->server->self;
  rb_ensure(run_hand, (VALUE)hand, retire, (VALUE)hand);
  RB_GC_GUARD(self);
  return Qnil;
}

static VALUE create(RB_BLOCK_CALL_FUNC_ARGLIST(unused, arg)) {
  (void)unused;
  ab_hand *hand = (ab_hand *)arg;
  hand->runner.thread = rb_thread_create(hand_main, hand);
  rb_ary_push(hand->gang->threads, hand->runner.thread);
  return Qnil;
}

/* Cancellation reaches a thread where it reaches a fiber: where it waits, and not in the middle of
 * a computation. A thread has the mask of its maker; one that it called for itself would stand
 * below the app in every backtrace, as a frame without a path, which Rails's pages of errors and
 * others that read sources do not bear. */
static void create_masked(ab_hand *hand) {
  VALUE mask = rb_hash_new();
  rb_hash_aset(mask, ab_error_class("Cancelled"), ID2SYM(rb_intern("on_blocking")));
  rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, create, (VALUE)hand);
}

static VALUE start(VALUE arg) {
  ab_hand *hand = (ab_hand *)arg;
  ab_gang *gang = hand->gang;
  create_masked(hand);
  rb_funcall(hand->runner.thread, rb_intern("name="), 1,
             rb_sprintf("abaca thread %u", gang->started));
  return Qnil;
}

/* Without those that have ended. */
static void prune(ab_gang *gang) {
  if (RARRAY_LEN(gang->threads) < 2 * (long)gang->live + 8) return;
  VALUE alive = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(gang->threads); i++) {
    VALUE thread = RARRAY_AREF(gang->threads, i);
    if (RTEST(rb_funcall(thread, rb_intern("alive?"), 0))) rb_ary_push(alive, thread);
  }
  gang->threads = alive;
}

static ab_hand *make_hand(ab_gang *gang) {
  ab_list *node = ab_list_shift(&gang->retired);
  if (node) {
    ab_hand *used = AB_CONTAINER_OF(node, ab_hand, link);
    used->begun = used->interrupted = used->late = used->raised = false;
    return used;
  }
  ab_hand *hand = ab_alloc_zero(&ab_mem_libc, sizeof(*hand));
  if (!hand) return NULL;
  init_hand(hand, gang);
  hand->runner.scratch = ab_alloc(&ab_mem_libc, AB_SCRATCH_SIZE);
  hand->runner.scratch_capacity = AB_SCRATCH_SIZE;
  if (hand->runner.scratch) return hand;
  pthread_cond_destroy(&hand->call);
  ab_free(&ab_mem_libc, hand);
  return NULL;
}

bool ab__gang_grow(ab_gang *gang) {
  if (ab__gang_is_grown(gang)) return true;
  ab_hand *hand = make_hand(gang);
  if (!hand) return false;
  ab_list_append(&gang->hands, &hand->link);
  gang->live++;
  gang->started++;
  gang->starting++;
  int state = 0;
  rb_protect(start, (VALUE)hand, &state);
  /* Once it runs, an interrupt that came meanwhile is another matter, and its name too. */
  if (AB_LIKELY(!state)) {
    prune(gang);
    return true;
  }
  bool runs = !NIL_P(hand->runner.thread);
  if (!runs) remove_hand(hand);
  VALUE exception = rb_errinfo();
  bool no_thread = !runs && RTEST(rb_obj_is_kind_of(exception, rb_eThreadError));
  if (!no_thread) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  return false;
}

void ab_gang_begin(ab_gang *gang) {
  gang->threads = rb_ary_new();
  gang->mode_key = rb_str_to_interned_str(rb_str_new_cstr("abaca.mode"));
  gang->mode_name = ID2SYM(rb_intern("thread"));
  while (gang->live < gang->options.min) {
    if (!ab__gang_grow(gang))
      rb_raise(rb_eThreadError, "cannot start %u threads", gang->options.min);
  }
}

void ab_gang_beside(ab_gang *gang, rb_block_call_func_t body, VALUE arg) {
  VALUE thread = rb_block_call(rb_cThread, rb_intern("new"), 0, NULL, body, arg);
  rb_ary_push(gang->threads, thread);
  prune(gang);
}

/* --- the end --- */

static void end_idle(ab_gang *gang) {
  ab__gang_lock(gang);
  gang->ending = true;
  ab_list_each (node, next, &gang->idle) {
    pthread_cond_signal(&AB_CONTAINER_OF(node, ab_hand, idle_link)->call);
  }
  ab__gang_unlock(gang);
}

/* On a fiber a join of Ruby 3.1 is never given up: there the thread is looked at between sleeps.
 * Returns whether it has ended in time. */
static bool join_until(VALUE thread, ab_nsec end) {
  bool on_fiber = !NIL_P(rb_fiber_scheduler_current());
  for (;;) {
    ab_nsec now = ab_clock_monotonic();
    double left = now < end ? (double)(end - now) / (double)AB_NSEC_PER_SEC : 0;
    if (!on_fiber) return !NIL_P(rb_funcall(thread, rb_intern("join"), 1, DBL2NUM(left)));
    if (!RTEST(rb_funcall(thread, rb_intern("alive?"), 0))) return true;
    if (left == 0) return false;
    rb_funcall(rb_mKernel, rb_intern("sleep"), 1, DBL2NUM(JOIN_PAUSE));
  }
}

/* Returns false when threads are left after the time. */
static bool join_all(ab_gang *gang, ab_nsec time) {
  ab_nsec end = ab_clock_monotonic() + time;
  for (long i = 0; i < RARRAY_LEN(gang->threads); i++) {
    if (!join_until(RARRAY_AREF(gang->threads, i), end)) return false;
  }
  return true;
}

static void each_thread(ab_gang *gang, const char *method) {
  for (long i = 0; i < RARRAY_LEN(gang->threads); i++) {
    rb_funcall(RARRAY_AREF(gang->threads, i), rb_intern(method), 0);
  }
}

/* Who was given up has had the exception, and that time, before. */
static VALUE end_threads(VALUE arg) {
  ab_gang *gang = (ab_gang *)arg;
  bool late = gang->server->forced && gang->server->given_up;
  if (join_all(gang, late ? 0 : FORCE_TIME)) return Qnil;
  each_thread(gang, "kill");
  join_all(gang, KILL_TIME);
  return Qnil;
}

static VALUE interrupt(VALUE arg) {
  ab_shutdown_interrupt_threads(((ab_gang *)arg)->server, ab_clock_monotonic());
  return Qnil;
}

void ab_gang_end(ab_gang *gang, bool in_order) {
  if (NIL_P(gang->threads) || ab_server_forked(gang->server)) return;
  end_idle(gang);
  VALUE exception = rb_errinfo();
  if (!in_order) ab_server_quietly(interrupt, (VALUE)gang);
  ab_server_quietly(end_threads, (VALUE)gang);
  rb_set_errinfo(exception);
}

/* --- those who wait for a thread --- */

static void drop_job(ab_gang *gang, ab_job *job) {
  ab_list_remove(&job->link);
  gang->job_count--;
  ab_free(&ab_mem_libc, job);
}

static void turn_away(ab_gang *gang, ab_job *job, enum ab_rejection why) {
  ab_taken taken = job->taken;
  drop_job(gang, job);
  ab_server_refuse(&gang->watch.runner, &taken, why);
}

static void turn_all_away(ab_gang *gang) {
  while (!ab_list_empty(&gang->jobs)) {
    turn_away(gang, AB_CONTAINER_OF(gang->jobs.next, ab_job, link), AB_REJECT_NO_FIBER);
  }
}

ab_nsec ab_gang_turn_away(ab_gang *gang, ab_nsec now) {
  if (AB_LIKELY(gang->due == 0 || now < gang->due)) return gang->due;
  gang->due = 0;
  ab_list_each (node, next, &gang->jobs) {
    ab_job *job = AB_CONTAINER_OF(node, ab_job, link);
    if (job->until && job->until <= now) {
      turn_away(gang, job, AB_REJECT_QUEUE_TIMEOUT);
    } else if (job->until && (gang->due == 0 || job->until < gang->due)) {
      gang->due = job->until;
    }
  }
  return gang->due;
}

void ab_gang_relieve(ab_gang *gang) {
  call_idle(gang);
  while (AB_UNLIKELY(gang->job_count > gang->starting) && !ab__gang_is_grown(gang)) {
    if (!ab__gang_grow(gang)) return;
  }
}

void ab_gang_event(ab_gang *gang, ab_conn *conn, unsigned events) {
  ab_list_each (node, next, &gang->jobs) {
    ab_job *job = AB_CONTAINER_OF(node, ab_job, link);
    if (job->taken.conn != conn) continue;
    if (events & AB_EVENT_GONE) {
      drop_job(gang, job);
      gang->gone++;
      ab_engine_lock(gang->server->engine);
      ab_conn_finish(conn, AB_FINISH_BROKEN);
      ab_engine_unlock(gang->server->engine);
    } else if (events & AB_EVENT_DEADLINE) {
      turn_away(gang, job, AB_REJECT_REQUEST_TIMEOUT);
    }
    return;
  }
}

/* --- handing over --- */

static VALUE keep(VALUE arg) {
  ab_job *job = (ab_job *)((void **)arg)[0];
  ab_gang *gang = (ab_gang *)((void **)arg)[1];
  ab_server_keep((ab_runner *)((void **)arg)[2], &job->taken);
  VALUE env = job->taken.env;
  rb_hash_aset(env, gang->mode_key, gang->mode_name);
  RB_GC_GUARD(env);
  return Qnil;
}

/* NULL when it cannot be kept. */
static ab_job *make_job(ab_gang *gang, ab_runner *from, const ab_taken *taken) {
  ab_job *job = ab_alloc_zero(&ab_mem_libc, sizeof(*job));
  if (!job) return NULL;
  job->taken = *taken;
  ab_list_init(&job->link);
  uint64_t patience = ab_conn_limits(taken->conn)->queue_timeout;
  if (patience) job->until = ab_clock_monotonic() + ab_limit_nsec(patience);
  int state = 0;
  rb_protect(keep, (VALUE)(void *[]){job, gang, from}, &state);
  if (AB_LIKELY(!state)) return job;
  rb_set_errinfo(Qnil);
  ab_free(&ab_mem_libc, job);
  return NULL;
}

/* Threads that have no request, or can be had, take theirs at once. They need not be idle: between
 * two requests a thread is cleaned. */
static bool has_room(const ab_gang *gang) {
  size_t engaged = gang->job_count + gang->busy + gang->given;
  return engaged < gang->options.most + most_live(gang);
}

void ab_gang_take(ab_gang *gang, ab_runner *from) {
  ab_taken taken = ab_server_taken(from);
  bool room = has_room(gang);
  ab_job *job = room ? make_job(gang, from, &taken) : NULL;
  if (!job) {
    ab_server_refuse(&gang->watch.runner, &taken, room ? AB_REJECT_NO_FIBER : AB_REJECT_QUEUE_FULL);
    return;
  }
  VALUE env = job->taken.env;
  place(gang, job, false);
  if (gang->job_count > gang->starting && !ab__gang_grow(gang) && gang->live == 0) {
    turn_all_away(gang); /* the job may be no more by now, but no thread comes for any */
  }
  RB_GC_GUARD(env);
}

VALUE ab_gang_forwarded(ab_gang *gang) {
  VALUE exception = gang->forward;
  gang->forward = Qnil;
  gang->told = false;
  return exception;
}

bool ab_gang_busy(const ab_gang *gang) {
  return gang->busy > 0;
}

bool ab_gang_works(const ab_gang *gang) {
  return gang->busy > 0 || gang->given > 0 || gang->starting > 0;
}

ab_gang_stats ab_gang_get_stats(ab_gang *gang) {
  ab_gang_stats stats = {.min = gang->options.min, .max = gang->options.max};
  stats.leads = gang->led;
  stats.threads = gang->live;
  stats.busy = gang->busy;
  stats.jobs = (uint32_t)gang->job_count;
  stats.queued = gang->queued;
  stats.gone = gang->gone;
  stats.waiting = gang->led ? ab_engine_get_stats(gang->server->engine).waiting : stats.jobs;
  return stats;
}

void ab_gang_each_job(const ab_gang *gang, void (*fn)(const ab_taken *taken, void *ctx),
                      void *ctx) {
  for (const ab_list *node = gang->jobs.next; node != &gang->jobs; node = node->next) {
    fn(&AB_CONTAINER_OF(node, ab_job, link)->taken, ctx);
  }
}
