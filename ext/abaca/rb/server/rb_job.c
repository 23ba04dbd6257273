/* Ruby's postponed job, by which the standby reaches whoever has the GVL: Ruby calls it in that
 * thread, in the middle of what it does. It has no argument that could say for which server, so a
 * hidden list of the class names those that run.
 *
 * What is raised out of such a job is lost. So nothing here calls Ruby code or looks at interrupts;
 * those that are pending are seen to when it has returned. Nor does it make objects: where each
 * starts a collection, the next job would be there before this one is done. */
#include <ruby.h>
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/thread.h>
#include <time.h>

#include "rb/scheduler/rb_scheduler.h"
#include "rb/server/rb_server.h"

/* Whoever passes the GVL on stays out until it has come to one of ours, but not for longer than
 * this.
 */
#define NAPS     30
#define NAP_NSEC 100000

static VALUE engine_class(void) {
  return rb_const_get(rb_const_get(rb_cObject, rb_intern("Abaca")), rb_intern("Engine"));
}

static VALUE running_servers(void) {
  return rb_attr_get(engine_class(), rb_intern("running"));
}

/* To give the GVL up is not enough: its owner is quicker to take it again than who waits for it.
 * And when it goes to another that only computes, that one has to pass it on in turn. */
static void *nap(void *arg) {
  ab_server *server = arg;
  for (int i = 0; i < NAPS; i++) {
    nanosleep(&(struct timespec){.tv_nsec = NAP_NSEC}, NULL);
    if (!ab_lead_starves(&server->lead) && !atomic_load(&server->crew.making)) break;
    atomic_store(&server->stalls.nudge, true);
    ab_job_trigger(server);
  }
  return NULL;
}

/* Whoever has been made to wait has not kept its loop meanwhile. */
static void pass_on(ab_server *server) {
  ab_nsec began = ab_clock_monotonic();
  /* It does not nap when an interrupt is pending. */
  rb_nogvl(nap, server, NULL, NULL, RB_NOGVL_INTR_FAIL);
  ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_get());
  if (loop) ab_loop_excuse(loop, ab_clock_monotonic() - began);
}

static VALUE attend_all(VALUE unused) {
  VALUE running = running_servers();
  for (long i = 0; RB_TYPE_P(running, T_ARRAY) && i < RARRAY_LEN(running); i++) {
    volatile VALUE self = RARRAY_AREF(running, i); /* others may end it while we nap */
    ab_server *server = ab_server_of(self);
    if (ab_server_forked(server) || !ab_stalls_attend(server)) continue;
    pass_on(server);
  }
  return Qnil;
}

static void run_job(void *unused) {
  int state = 0;
  rb_protect(attend_all, Qnil, &state);
  if (state) rb_set_errinfo(Qnil); /* there is no memory for it */
}

void ab_job_begin(ab_server *server) {
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  rb_postponed_job_handle_t job = rb_postponed_job_preregister(0, run_job, NULL);
  if (job == POSTPONED_JOB_HANDLE_INVALID) {
    rb_raise(rb_eRuntimeError, "Ruby has no postponed job left for the server");
  }
  server->stalls.job = job;
#endif
  VALUE running = running_servers();
  if (NIL_P(running)) {
    running = rb_ary_new();
    rb_ivar_set(engine_class(), rb_intern("running"), running);
  }
  rb_ary_push(running, server->self);
}

void ab_job_trigger(ab_server *server) {
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  rb_postponed_job_trigger(server->stalls.job);
#else
  (void)server;
  rb_postponed_job_register_one(0, run_job, NULL);
#endif
}

void ab_job_end(ab_server *server) {
  VALUE running = running_servers();
  if (!NIL_P(running)) rb_ary_delete(running, server->self);
}
