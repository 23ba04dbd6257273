/* Ruby's postponed job, by which the standby reaches the thread that has the GVL, in the middle of
 * what that does. It has no argument for a run: a hidden list of the class has those that run. What
 * is raised in it is lost, so nothing here calls Ruby code or looks at interrupts. Nor does it make
 * objects: where each starts a collection, the next job would come before this one ends. */
#include "rb/run/rb_stalls.h"

#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/thread.h>

#include "rb/run/rb_stall_samples.h"
#include "rb/scheduler/rb_scheduler.h"

static VALUE engine_class(void) {
  return rb_const_get(rb_const_get(rb_cObject, rb_intern("Abaca")), rb_intern("Engine"));
}

static VALUE running_servers(void) {
  return rb_attr_get(engine_class(), rb_intern("running"));
}

/* A thread of the application's own, or of another server. */
typedef struct stranger {
  ab_contender contender;
  ab_pulse pulse;
} stranger;

typedef struct parking {
  ab_run *run;
  ab_contender *contender;
  ab_nsec time;
} parking;

/* Is somebody on the way to the lock? */
static bool lock_is_wanted(void *ctx) {
  ab_run *run = ctx;
  return ab_lead_starves(&run->rack.lead) || atomic_load(&run->spares.making);
}

static void *job_park(void *arg) {
  parking *p = arg;
  p->time = ab_gate_park(&p->run->rack.lead.gate, p->contender, lock_is_wanted, p->run);
  return NULL;
}

static void job_interrupt_parked(void *arg) {
  const parking *p = arg;
  ab_gate_interrupt(&p->run->rack.lead.gate, p->contender);
}

/* What a request shows. */
typedef struct shown {
  uint8_t said;
  enum ab_state state;
  ab_addr peer; /* that it waits for */
} shown;

/* Shows `next`, and returns what the request showed before. */
static shown show_call(ab_call *call, const shown *next) {
  uint8_t *said = call->work ? &call->work->said : &call->said;
  shown before = {.said = *said};
  *said = next->said;
  if (!call->row) return before;
  before.state = ab_row_state(call->row);
  before.peer = call->row->waits_for;
  ab_row_wait(call->row, next->state, &next->peer, ab_clock_monotonic());
  return before;
}

/* It does not wait when an interrupt is pending. */
static void park_thread(parking *p) {
  rb_nogvl(job_park, p, job_interrupt_parked, p, RB_NOGVL_INTR_FAIL);
}

/* A fiber that has been made to wait has not kept its loop meanwhile. Its request cannot end while
 * it does. */
static void park_driver(ab_driver *driver, parking *p) {
  ab_call *call = ab_stalls_current_call(driver);
  /* It waits for the GVL, whatever Ruby tells meanwhile (rb_clock_events.c). */
  shown before, parked = {.said = AB_STATE_GVL, .state = AB_STATE_GVL};
  if (call) before = show_call(call, &parked);
  park_thread(p);
  if (call) show_call(call, &before); /* it may have been about to wait, as a thread of the pool */
  if (driver->loop) ab_loop_excuse(driver->loop, p->time);
  ab_stall_samples_excuse(driver, p->time);
}

static void pass_on(ab_run *run, ab_driver *driver) {
  parking p = {.run = run};
  if (driver) {
    p.contender = &driver->runner.participant.contender;
    park_driver(driver, &p);
    return;
  }
  stranger other;
  p.contender = &other.contender;
  ab_gate_join_for_once(&other.contender, &other.pulse);
  park_thread(&p);
  ab_gate_part_for_once(&other.contender);
}

static VALUE attend_all(VALUE unused) {
  VALUE running = running_servers();
  for (long i = 0; RB_TYPE_P(running, T_ARRAY) && i < RARRAY_LEN(running); i++) {
    volatile VALUE self = RARRAY_AREF(running, i); /* others may end it while we wait */
    ab_run *run = ab_run_of(ab_rack_of(self));
    ab_driver *driver;
    if (ab_rack_forked(&run->rack) || !ab_stalls_attend(run, &driver)) continue;
    pass_on(run, driver);
  }
  return Qnil;
}

static void owner_run_job(void *unused) {
  int state = 0;
  rb_protect(attend_all, Qnil, &state);
  if (state) rb_set_errinfo(Qnil); /* there is no memory for it */
}

void ab_job_begin(ab_run *run) {
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  rb_postponed_job_handle_t job = rb_postponed_job_preregister(0, owner_run_job, NULL);
  if (job == POSTPONED_JOB_HANDLE_INVALID) {
    rb_raise(rb_eRuntimeError, "Ruby has no postponed job left for the server");
  }
  run->stalls.job = job;
#endif
  VALUE running = running_servers();
  if (NIL_P(running)) {
    running = rb_ary_new();
    rb_ivar_set(engine_class(), rb_intern("running"), running);
  }
  rb_ary_push(running, run->rack.self);
}

void ab_job_trigger(ab_run *run) {
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  rb_postponed_job_trigger(run->stalls.job);
#else
  (void)run;
  rb_postponed_job_register_one(0, owner_run_job, NULL);
#endif
}

void ab_job_end(ab_run *run) {
  VALUE running = running_servers();
  if (!NIL_P(running)) rb_ary_delete(running, run->rack.self);
}
