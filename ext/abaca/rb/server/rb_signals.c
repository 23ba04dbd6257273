/* Engine.hold_signals and others: signals that come while the process executes another program in
 * its place (lib/abaca/launcher/signals.rb). */
#include "rb/server/rb_server.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static sigset_t set_of(VALUE numbers) {
  sigset_t set;
  sigemptyset(&set);
  Check_Type(numbers, T_ARRAY);
  for (long i = 0; i < RARRAY_LEN(numbers); i++) {
    if (sigaddset(&set, NUM2INT(RARRAY_AREF(numbers, i))) != 0) rb_sys_fail("sigaddset");
  }
  return set;
}

/* The kernel gives a signal to any thread that does not block it. This one sends it to the process
 * again and blocks it from now on: when all threads do, it waits, and so it outlives them. */
static void pass_on(int number, siginfo_t *info AB_UNUSED, void *context) {
  int error = errno;
  sigaddset(&((ucontext_t *)context)->uc_sigmask, number);
  kill(getpid(), number);
  errno = error;
}

static void set_handlers(VALUE numbers) {
  struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigfillset(&action.sa_mask);
  for (long i = 0; i < RARRAY_LEN(numbers); i++) {
    if (sigaction(NUM2INT(RARRAY_AREF(numbers, i)), &action, NULL) != 0) rb_sys_fail("sigaction");
  }
}

/* call-seq: Engine.hold_signals(numbers) -> nil
 *
 * From now on these signals wait, until they are released or the calling thread executes another
 * program, where they wait, too. What has come before is handled, if this is the main thread: its
 * handlers run meanwhile. To end it, set the handlers anew, and release the signals. */
static VALUE hold_signals(VALUE klass AB_UNUSED, VALUE numbers) {
  sigset_t set = set_of(numbers);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  set_handlers(numbers);
  rb_thread_check_ints();
  return Qnil;
}

/* call-seq: Engine.release_signals(numbers) -> nil
 *
 * The calling thread takes these signals again. */
static VALUE release_signals(VALUE klass AB_UNUSED, VALUE numbers) {
  sigset_t set = set_of(numbers);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  rb_thread_check_ints();
  return Qnil;
}

/* call-seq: Engine.holds_signals?(numbers) -> true or false
 *
 * Whether the calling thread blocks all of these signals. */
static VALUE holds_signals(VALUE klass AB_UNUSED, VALUE numbers) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  Check_Type(numbers, T_ARRAY);
  for (long i = 0; i < RARRAY_LEN(numbers); i++) {
    if (sigismember(&mask, NUM2INT(RARRAY_AREF(numbers, i))) != 1) return Qfalse;
  }
  return Qtrue;
}

void ab_init_signals(VALUE cEngine) {
  rb_define_singleton_method(cEngine, "hold_signals", hold_signals, 1);
  rb_define_singleton_method(cEngine, "release_signals", release_signals, 1);
  rb_define_singleton_method(cEngine, "holds_signals?", holds_signals, 1);
}
