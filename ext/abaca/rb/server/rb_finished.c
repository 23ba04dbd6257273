/* What an app wants to be called when its response is done: rack.response_finished (Rack SPEC 3),
 * whose callables get env, status, headers and error, the last one first, and rack.after_reply,
 * Puma's, without arguments. By then the response is the engine's to send, and the connection may
 * have gone on. */
#include "rb/server/rb_response.h"

typedef struct call {
  VALUE callable;
  int argc;
  const VALUE *argv;
} call;

static VALUE make_call(VALUE arg) {
  const call *c = (const call *)arg;
  VALUE result = rb_check_funcall(c->callable, rb_intern("call"), c->argc, c->argv);
  if (AB_UNLIKELY(result == Qundef)) {
    VALUE shown = ab_response_show(c->callable);
    rb_raise(ab_error_class("AppError"), "what the response's end calls has no call: %" PRIsVALUE,
             shown);
  }
  return result;
}

/* Returns the state of what is not one request's to rescue, 0 otherwise. */
static int run(ab_exchange *exchange, VALUE callable, int argc, const VALUE *argv) {
  call c = {callable, argc, argv};
  int state = 0;
  rb_protect(make_call, (VALUE)&c, &state);
  if (AB_LIKELY(!state)) return 0;
  VALUE exception = rb_errinfo();
  bool is_exception = RTEST(rb_obj_is_kind_of(exception, rb_eException));
  if (!is_exception || ab_server_is_fatal(exception)) return state;
  if (!RTEST(rb_obj_is_kind_of(exception, ab_error_class("Shutdown")))) {
    ab_server_log_error(exchange, exception);
  }
  rb_set_errinfo(Qnil);
  return 0;
}

/* The app may do what it likes with the list meanwhile. */
static int run_finished(ab_exchange *exchange) {
  VALUE status = exchange->status ? INT2FIX(exchange->status) : Qnil;
  VALUE headers = NIL_P(exchange->headers) ? rb_hash_new() : exchange->headers;
  const VALUE argv[] = {exchange->env, status, headers, exchange->error};
  int state = 0;
  for (long i = RARRAY_LEN(exchange->finished); !state && i-- > 0;) {
    if (i >= RARRAY_LEN(exchange->finished)) continue;
    state = run(exchange, RARRAY_AREF(exchange->finished, i), 4, argv);
  }
  RB_GC_GUARD(headers);
  return state;
}

static int run_replied(ab_exchange *exchange) {
  int state = 0;
  for (long i = 0; !state && i < RARRAY_LEN(exchange->replied); i++) {
    state = run(exchange, RARRAY_AREF(exchange->replied, i), 0, NULL);
  }
  return state;
}

static bool any(VALUE list) {
  return !NIL_P(list) && RARRAY_LEN(list) > 0;
}

int ab_exchange_finished(ab_exchange *exchange) {
  int state = any(exchange->finished) ? run_finished(exchange) : 0;
  return state || !any(exchange->replied) ? state : run_replied(exchange);
}
