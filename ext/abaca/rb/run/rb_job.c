/* Ruby's postponed job, by which the standby reaches the thread that has the GVL, in the middle of
 * what that does. It has no argument for a run: a hidden list of the class has those that run. What
 * is raised in it is lost, so nothing here calls Ruby code or looks at interrupts. Nor does it make
 * objects: where each starts a collection, the next job would come before this one ends. */
#include "rb/run/rb_stalls.h"

#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/thread.h>
#include <time.h>

#include "rb/scheduler/rb_scheduler.h"

/* The GVL's owner stays out until one of ours has it, for this many naps at most. */
#define NAPS     30
#define NAP_NSEC 100000

static VALUE engine_class(void) {
  return rb_const_get(rb_const_get(rb_cObject, rb_intern("Abaca")), rb_intern("Engine"));
}

static VALUE running_servers(void) {
  return rb_attr_get(engine_class(), rb_intern("running"));
}

/* To give the GVL up is not enough: its owner takes it again before a thread that waits for it. And
 * when it goes to another that only computes, that one has to pass it on in turn. */
static void *nap(void *arg) {
  ab_run *run = arg;
  for (int i = 0; i < NAPS; i++) {
    nanosleep(&(struct timespec){.tv_nsec = NAP_NSEC}, NULL);
    if (!ab_lead_starves(&run->rack.lead) && !atomic_load(&run->spares.making)) break;
    atomic_store(&run->stalls.nudge, true);
    ab_job_trigger(run);
  }
  return NULL;
}

/* A fiber that has been made to wait has not kept its loop meanwhile. */
static void pass_on(ab_run *run) {
  ab_nsec began = ab_clock_monotonic();
  /* It does not nap when an interrupt is pending. */
  rb_nogvl(nap, run, NULL, NULL, RB_NOGVL_INTR_FAIL);
  ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_get());
  if (loop) ab_loop_excuse(loop, ab_clock_monotonic() - began);
}

static VALUE attend_all(VALUE unused) {
  VALUE running = running_servers();
  for (long i = 0; RB_TYPE_P(running, T_ARRAY) && i < RARRAY_LEN(running); i++) {
    volatile VALUE self = RARRAY_AREF(running, i); /* others may end it while we nap */
    ab_run *run = ab_run_of(ab_rack_of(self));
    if (ab_rack_forked(&run->rack) || !ab_stalls_attend(run)) continue;
    pass_on(run);
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
