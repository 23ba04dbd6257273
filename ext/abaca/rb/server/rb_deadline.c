/* env["abaca.deadline"]: how much time a request has, more of it, and who is told when it is over.
 * It is the request's Abaca::Exchange, so that no request pays for an object that it does not look
 * at. */
#include "rb/server/rb_server.h"

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
  ab_exchange *exchange = ab_exchange_of(self);
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  bool over = ab_conn_news(exchange->conn) & AB_EVENT_DEADLINE;
  ab_nsec deadline = ab_conn_deadline(exchange->conn), now = ab_clock_monotonic();
  ab_engine_unlock(engine);
  if (!over && !deadline) return Qnil;
  ab_nsec left = !over && deadline > now ? deadline - now : 0;
  return DBL2NUM((double)left / (double)AB_NSEC_PER_SEC);
}

/* call-seq: extend(seconds) -> Float or nil
 *           extend(module, ...) -> self
 *
 * Gives the request so many seconds more than it has, or from now on when its time is over. One
 * that has as much as it wants goes on having it. Returns what #remaining then is. With modules it
 * is Object#extend.
 *
 * Raises IOError after the request, ArgumentError for what is no time. */
static VALUE deadline_extend(int argc, VALUE *argv, VALUE self) {
  if (argc != 1 || !RTEST(rb_obj_is_kind_of(argv[0], rb_cNumeric))) {
    return rb_call_super(argc, argv);
  }
  ab_exchange_of(self);
  ab_nsec time = ab_seconds(argv[0], "extend: seconds or a module");
  ab_cancel_extend(ab_exchange_of(self), time);
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
  ab_cancel_on_cancel(ab_exchange_of(self), block);
  return Qnil;
}

void ab_init_deadline(VALUE cExchange) {
  rb_define_method(cExchange, "remaining", deadline_remaining, 0);
  rb_define_method(cExchange, "extend", deadline_extend, -1);
  rb_define_method(cExchange, "on_cancel", deadline_on_cancel, 0);
}
