/* Ruby's postponed job, by which the standby reaches the thread that has the GVL, in the middle of
 * what that does. It has no argument for a run: a hidden list of the class has those that run. What
 * is raised in it is lost, so nothing here calls Ruby code or looks at interrupts. Nor does it make
 * objects: where each starts a collection, the next job would come before this one ends. */
#include "rb/run/rb_stalls.h"

#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/thread.h>

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

/* A fiber that has been made to wait has not kept its loop meanwhile. */
static void pass_on(ab_run *run, ab_contender *contender) {
  stranger other;
  parking p = {run, contender, 0};
  if (!contender) {
    p.contender = &other.contender;
    ab_gate_join_for_once(&other.contender, &other.pulse);
  }
  /* It does not wait when an interrupt is pending. */
  rb_nogvl(job_park, &p, job_interrupt_parked, &p, RB_NOGVL_INTR_FAIL);
  if (!contender) ab_gate_part_for_once(&other.contender);
  ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_get());
  if (loop) ab_loop_excuse(loop, p.time);
}

static VALUE attend_all(VALUE unused) {
  VALUE running = running_servers();
  for (long i = 0; RB_TYPE_P(running, T_ARRAY) && i < RARRAY_LEN(running); i++) {
    volatile VALUE self = RARRAY_AREF(running, i); /* others may end it while we wait */
    ab_run *run = ab_run_of(ab_rack_of(self));
    ab_contender *contender;
    if (ab_rack_forked(&run->rack) || !ab_stalls_attend(run, &contender)) continue;
    pass_on(run, contender);
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
