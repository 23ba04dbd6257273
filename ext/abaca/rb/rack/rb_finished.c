/* rack.response_finished (Rack SPEC 3), whose callables get env, status, headers and error, the
 * last one first, and Puma's rack.after_reply, without arguments. By then the response is the
 * engine's to send, and the connection may have gone on. */
#include "rb/rack/rb_call.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_response.h"

typedef struct callback {
  VALUE callable;
  int argc;
  const VALUE *argv;
} callback;

static VALUE make_call(VALUE arg) {
  const callback *c = (const callback *)arg;
  VALUE result = rb_check_funcall(c->callable, rb_intern("call"), c->argc, c->argv);
  if (AB_UNLIKELY(result == Qundef)) {
    VALUE shown = ab_response_show(c->callable);
    rb_raise(ab_class("AppError"), "what the response's end calls has no call: %" PRIsVALUE, shown);
  }
  return result;
}

/* Returns the state of what is not one request's to rescue, 0 otherwise. */
static int run(ab_call *call, VALUE callable, int argc, const VALUE *argv) {
  callback c = {callable, argc, argv};
  int state = 0;
  rb_protect(make_call, (VALUE)&c, &state);
  if (AB_LIKELY(!state)) return 0;
  VALUE exception = rb_errinfo();
  if (!ab_is_exception(exception) || ab_is_fatal(exception)) return state;
  if (!RTEST(rb_obj_is_kind_of(exception, ab_class("Shutdown")))) {
    ab_call_log_error(call->rack, exception, call->env);
  }
  rb_set_errinfo(Qnil);
  return 0;
}

/* The app may do what it likes with the list meanwhile. */
static int run_finished(ab_call *call) {
  VALUE status = call->status ? INT2FIX(call->status) : Qnil;
  VALUE headers = NIL_P(call->headers) ? rb_hash_new() : call->headers;
  const VALUE argv[] = {call->env, status, headers, call->error};
  int state = 0;
  for (long i = RARRAY_LEN(call->finished); !state && i-- > 0;) {
    if (i >= RARRAY_LEN(call->finished)) continue;
    state = run(call, RARRAY_AREF(call->finished, i), 4, argv);
  }
  RB_GC_GUARD(headers);
  return state;
}

static int run_replied(ab_call *call) {
  int state = 0;
  for (long i = 0; !state && i < RARRAY_LEN(call->replied); i++) {
    state = run(call, RARRAY_AREF(call->replied, i), 0, NULL);
  }
  return state;
}

static bool any(VALUE list) {
  return !NIL_P(list) && RARRAY_LEN(list) > 0;
}

int ab_finished_run(ab_call *call) {
  int state = any(call->finished) ? run_finished(call) : 0;
  return state || !any(call->replied) ? state : run_replied(call);
}
