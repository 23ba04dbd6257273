/* What Ruby tells of its threads (3.2): that one has given up the GVL, waits for it, has it again.
 * A thread that runs requests has its driver as its value under a key: Ruby's where it has such
 * keys (3.3), whose threads may change their native ones, else the system's. Nothing here makes an
 * object, or runs Ruby code. */
#include "rb/run/rb_clock.h"

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
#include <pthread.h>
#include <ruby/thread.h>

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_line.h"
#include "rb/run/rb_thread_parts.h"
#include "rb/scheduler/rb_scheduler.h"

#ifdef HAVE_RB_INTERNAL_THREAD_SPECIFIC_KEY_CREATE
typedef rb_internal_thread_specific_key_t thread_key;
#else
typedef pthread_key_t thread_key;
#endif

struct ab_clock_events {
  ab_run *run; /* NULL: that is freed */
  thread_key key;
  rb_internal_thread_event_hook_t *hook;
};

/* --- the key --- */

#ifdef HAVE_RB_INTERNAL_THREAD_SPECIFIC_KEY_CREATE
/* Ruby has eight of them, and gives none back: one does for all servers of a process. */
static bool make_key(thread_key *key) {
  VALUE class = ab_class("Engine");
  ID name = rb_intern("__thread_key__");
  VALUE made = rb_attr_get(class, name);
  if (NIL_P(made)) {
    made = INT2FIX(rb_internal_thread_specific_key_create());
    rb_ivar_set(class, name, made);
  }
  *key = (thread_key)FIX2INT(made);
  return true;
}

static void drop_key(thread_key key AB_UNUSED) {}

static void set_value(thread_key key, void *value) {
  rb_internal_thread_specific_set(rb_thread_current(), key, value);
}

/* Ruby may tell on another thread that this one is ready. */
static ab_driver *driver_of(const ab_clock_events *events,
                            const rb_internal_thread_event_data_t *data) {
  return rb_internal_thread_specific_get(data->thread, events->key);
}

/* The thread has had a driver, of a run that is over. */
static void forget_thread(void) {
  thread_key key;
  if (make_key(&key)) set_value(key, NULL);
}
#else
static bool make_key(thread_key *key) {
  return pthread_key_create(key, NULL) == 0;
}

static void drop_key(thread_key key) {
  pthread_key_delete(key);
}

static void set_value(thread_key key, void *value) {
  int error = pthread_setspecific(key, value);
  (void)error; /* without memory nothing is told of the thread */
}

static ab_driver *driver_of(const ab_clock_events *events,
                            const rb_internal_thread_event_data_t *data AB_UNUSED) {
  return pthread_getspecific(events->key);
}

static void forget_thread(void) {}
#endif

void ab__clock_set_thread(const ab_run *run, ab_driver *driver) {
  if (run->events) {
    set_value(run->events->key, driver);
  } else if (!driver) {
    forget_thread();
  }
}

/* --- what is told --- */

/* While it has the GVL it runs; when it has given that up it waits for something else, unless it is
 * known what for; then for the GVL. */
static enum ab_state state_after(rb_event_flag_t event, unsigned said) {
  if (event == RUBY_INTERNAL_THREAD_EVENT_READY) return AB_STATE_GVL;
  bool runs = event == RUBY_INTERNAL_THREAD_EVENT_RESUMED;
  if (said != AB_STATE_COUNT) return (enum ab_state)said;
  return runs ? AB_STATE_RUN : AB_STATE_IO;
}

static void turn_work(const ab_work *work, rb_event_flag_t event) {
  bool runs = event == RUBY_INTERNAL_THREAD_EVENT_RESUMED;
  if (!work->row) return;
  ab_row_turn(work->row, state_after(event, runs ? AB_STATE_COUNT : work->said),
              ab_clock_monotonic());
}

/* The GVL is not held: nothing of Ruby's is asked. */
static void turn_call(ab_call *call, rb_event_flag_t event) {
  if (!call->row) return;
  unsigned said = call->said != AB_STATE_COUNT ? call->said : call->wait_state;
  ab_nsec now = ab_clock_monotonic();
  enum ab_state state = state_after(event, said);
  /* It has the GVL by now. */
  if (event == RUBY_INTERNAL_THREAD_EVENT_RESUMED && ab_row_state(call->row) == AB_STATE_GVL)
    ab_sight_had_gvl(call->rack->sight, now - call->row->since);
  ab_row_turn(call->row, state, now);
  bool runs = event == RUBY_INTERNAL_THREAD_EVENT_RESUMED;
  ab_line_shows_call(call, runs ? AB_STATE_RUN : state, now);
}

/* Ruby 3.3 and 3.4 do not tell that a wait is over if an interrupt ended it before it began. The
 * thread then counts as gone until Ruby switches to another one and back: for a time slice at most,
 * if another one wants the GVL. */
static enum ab_grip grip_after(rb_event_flag_t event) {
  if (event == RUBY_INTERNAL_THREAD_EVENT_SUSPENDED) return AB_GRIP_GONE;
  return event == RUBY_INTERNAL_THREAD_EVENT_READY ? AB_GRIP_WANTS : AB_GRIP_HAS;
}

static void thread_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data,
                         void *ctx) {
  ab_clock_events *events = ctx;
  if (!events->run || ab_rack_forked(&events->run->rack)) return;
  ab_driver *driver = driver_of(events, data);
  if (!driver || driver->run != events->run) return;
  ab_gate_tell_grip(&driver->runner.participant.contender, grip_after(event));
  if (driver->loop) {
    const ab_work *work = ab_loop_work(driver->loop);
    if (work) turn_work(work, event);
  } else if (driver->runner.executor->mode == AB_MODE_THREAD) {
    ab_call *call = AB_CONTAINER_OF(driver, ab_worker, driver)->call;
    if (call) turn_call(call, event);
  }
}

/* --- life --- */

void ab_clock_listen(ab_run *run) {
  ab_clock_events *events = ab_alloc_zero(&ab_mem_libc, sizeof(*events));
  if (!events) rb_memerror();
  events->run = run;
  if (!make_key(&events->key)) {
    ab_free(&ab_mem_libc, events);
    return;
  }
  run->events = events;
  events->hook = rb_internal_thread_add_event_hook(thread_event,
                                                   RUBY_INTERNAL_THREAD_EVENT_READY |
                                                       RUBY_INTERNAL_THREAD_EVENT_RESUMED |
                                                       RUBY_INTERNAL_THREAD_EVENT_SUSPENDED,
                                                   events);
}

void ab_clock_hush(ab_run *run) {
  ab_clock_events *events = run->events;
  if (!events) return;
  run->events = NULL;
  if (events->hook) rb_internal_thread_remove_event_hook(events->hook);
  drop_key(events->key);
  ab_free(&ab_mem_libc, events);
}

void ab_clock_forget(ab_run *run) {
  if (run->events) run->events->run = NULL;
}
#else
void ab__clock_set_thread(const ab_run *run AB_UNUSED, ab_driver *driver AB_UNUSED) {}
void ab_clock_listen(ab_run *run AB_UNUSED) {}
void ab_clock_hush(ab_run *run AB_UNUSED) {}
void ab_clock_forget(ab_run *run AB_UNUSED) {}
#endif
