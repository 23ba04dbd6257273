/* env["abaca.deadline"]: how much time a request has, more of it, and blocks that are told when it
 * is over. It is the request's Abaca::Exchange, so that no request pays for an object that it does
 * not use. */
#include "rb/rack/rb_deadline.h"

#include "rb/rack/rb_cancel.h"

ab_nsec ab_seconds(VALUE seconds, const char *what) {
  double time = NUM2DBL(seconds);
  if (!(time > 0)) {
    rb_raise(rb_eArgError, "%s is needed, not %" PRIsVALUE, what, rb_inspect(seconds));
  }
  return time < (double)UINT32_MAX ? (ab_nsec)(time * (double)AB_NSEC_PER_SEC)
                                   : ab_limit_nsec(UINT32_MAX);
}

/* call-seq: remaining -> Float or nil
 *
 * Seconds until the request's time is over, 0.0 once it is; nil when it has as much as it wants.
 *
 * Raises IOError after the request. */
static VALUE deadline_remaining(VALUE self) {
  ab_call *call = ab_call_of(self);
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  bool over = ab_exchange_news(call->exchange) & AB_EVENT_DEADLINE;
  ab_nsec deadline = ab_exchange_deadline(call->exchange), now = ab_clock_monotonic();
  ab_engine_unlock(engine);
  if (!over && !deadline) return Qnil;
  ab_nsec left = !over && deadline > now ? deadline - now : 0;
  return DBL2NUM((double)left / (double)AB_NSEC_PER_SEC);
}

/* call-seq: add_time(seconds) -> Float or nil
 *
 * Adds to the request's time, or gives it a new deadline from now on when the old one has passed. A
 * request without a deadline stays without one. Returns what #remaining then is.
 *
 * Raises IOError after the request, ArgumentError or TypeError for what is not a positive number.
 */
static VALUE deadline_add_time(VALUE self, VALUE seconds) {
  ab_call_of(self);
  ab_nsec time = ab_seconds(seconds, "add_time: a positive number of seconds");
  ab_cancel_add_time(ab_call_of(self), time);
  return deadline_remaining(self);
}

/* call-seq: on_cancel { |exception| ... } -> nil
 *
 * Has the block called once, when the server ends the request's work: on a fiber of its own, before
 * the exception is raised where the request waits, and also if it does not wait. At once when that
 * has happened already. What it raises is logged.
 *
 * Raises IOError after the request. */
static VALUE deadline_on_cancel(VALUE self) {
  rb_need_block();
  VALUE block = rb_block_proc();
  ab_cancel_on_cancel(ab_call_of(self), block);
  return Qnil;
}

void ab_init_deadline(VALUE cExchange) {
  rb_define_method(cExchange, "remaining", deadline_remaining, 0);
  rb_define_method(cExchange, "add_time", deadline_add_time, 1);
  rb_define_method(cExchange, "on_cancel", deadline_on_cancel, 0);
}
