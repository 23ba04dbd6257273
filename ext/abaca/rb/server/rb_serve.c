/* One exchange, on the fiber of its request: the app is called, its response written, and however
 * either ends, by an exception, a kill or a fork, the exchange ends exactly once. */
#include "rb/server/rb_hybrid.h"

static void add_input(ab_exchange *exchange, const ab_body *body) {
  ab_server *server = exchange->server;
  VALUE input = ab_exchange_input(exchange);
  if (server->rewindable_input) {
    VALUE argv[] = {input, ULL2NUM(ab_conn_limits(exchange->conn)->max_body_memory)};
    input = exchange->rewindable = rb_class_new_instance(2, argv, server->rewindable_class);
  }
  ab_env_set_input(&server->env, exchange->env, input);
  if (body->chunked) {
    exchange->trailers = rb_hash_new();
    ab_env_set_trailers(&server->env, exchange->env, exchange->trailers);
  }
}

static VALUE call_app(VALUE arg) {
  ab_exchange *exchange = (ab_exchange *)arg;
  ab_server *server = exchange->server;
  ab_exchange_begin(exchange);
  const ab_body *body = ab_conn_body(exchange->conn);
  if (body) add_input(exchange, body);
  exchange->result = server->app_is_proc
                         ? rb_proc_call_with_block(server->app, 1, &exchange->env, Qnil)
                         : rb_funcallv(server->app, server->id_call, 1, &exchange->env);
  /* A child that the app forked must not answer on its parent's connection. */
  if (AB_UNLIKELY(ab_server_forked(server))) return Qnil;
  if (!exchange->runner->host->in_turns) { /* for the date */
    ab_engine_lock(server->engine);
    ab_server_pass_time(exchange->runner);
    ab_engine_unlock(server->engine);
  }
  ab_response_write(exchange);
  return Qnil;
}

static VALUE close_body(VALUE arg) {
  ab_response_close_body((ab_exchange *)arg);
  return Qnil;
}

typedef struct report {
  ab_exchange *exchange;
  VALUE exception;
} report;

static VALUE write_app_error(VALUE arg) {
  report *r = (report *)arg;
  return rb_funcall(r->exchange->server->log, rb_intern("app_error"), 2, r->exception,
                    r->exchange->env);
}

static VALUE write_access(VALUE arg) {
  ab_exchange *exchange = (ab_exchange *)arg;
  double seconds = (double)(ab_clock_monotonic() - exchange->started) / (double)AB_NSEC_PER_SEC;
  bool unanswered = exchange->hijacked && exchange->status != 101;
  VALUE status = unanswered ? Qnil : INT2FIX(exchange->status);
  return rb_funcall(exchange->server->log, rb_intern("access"), 4, exchange->env, status,
                    ULL2NUM(exchange->body_sent), DBL2NUM(seconds));
}

/* A log that raises is not worth a request. */
void ab_server_quietly(VALUE (*fn)(VALUE), VALUE arg) {
  int state = 0;
  rb_protect(fn, arg, &state);
  if (state) rb_set_errinfo(Qnil);
}

static bool is_a(VALUE exception, VALUE klass) {
  return RTEST(rb_obj_is_kind_of(exception, klass));
}

bool ab_server_is_fatal(VALUE exception) {
  return is_a(exception, rb_eSystemExit) || is_a(exception, rb_eSignal);
}

void ab_server_log_error(ab_exchange *exchange, VALUE exception) {
  report r = {exchange, exception};
  ab_server_quietly(write_app_error, (VALUE)&r);
}

void ab_server_answer_last(ab_exchange *exchange, int status) {
  ab_engine_lock(exchange->server->engine);
  ab_conn_close_after(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
  ab_response_error(exchange, status);
}

/* The app has raised. What is set up for its errors answers as soon as its body is closed; when
 * that raises as well, the server does. */
static void fail(ab_exchange *exchange, int status) {
  bool ask = !NIL_P(exchange->server->error_answers) && !exchange->failed && !exchange->head_sent &&
             !exchange->hijacked;
  if (!ask) {
    ab_response_error(exchange, status);
  } else {
    exchange->failed = status;
  }
}

/* The response that has failed before its head was sent leaves nothing behind. */
static void take_back(ab_exchange *exchange) {
  if (exchange->file) ab_server_return(exchange->server, exchange->file);
  exchange->file = NULL;
  exchange->body = exchange->headers = Qnil;
  exchange->chunked = exchange->has_length = exchange->no_content = exchange->overrun = false;
  exchange->body_left = 0;
}

static VALUE answer_failure(VALUE arg) {
  ab_exchange *exchange = (ab_exchange *)arg;
  take_back(exchange);
  VALUE argv[] = {exchange->error, exchange->env, INT2FIX(exchange->failed)};
  exchange->result = rb_funcallv(exchange->server->error_answers, rb_intern("call"), 3, argv);
  ab_response_write(exchange);
  return Qnil;
}

/* What the app raises on the way out of a request that was cancelled does not change why that ends.
 */
static void answer_failed(ab_exchange *exchange, VALUE exception) {
  if (is_a(exchange->cancelled, ab_error_class("DeadlineExceeded"))) {
    ab_server_answer_last(exchange, 504);
  } else if (is_a(exchange->cancelled, ab_error_class("Shutdown"))) {
    ab_response_error(exchange, 503);
  } else {
    fail(exchange, is_a(exception, ab_error_class("StorageError")) ? 507 : 500);
  }
}

/* Deals with what ended the app's call or its body by an exception, by blame (errors.rb). Returns
 * true when it concerns the process and has to go on. */
static bool blame(ab_exchange *exchange) {
  VALUE exception = rb_errinfo();
  if (ab_server_forked(exchange->server)) return true;
  if (!is_a(exception, rb_eException)) { /* the fiber or its thread is being killed */
    ab_response_error(exchange, 500);
    return true;
  }
  if (is_a(exception, ab_error_class("PeerError"))) {
    ab_engine_lock(exchange->server->engine);
    int error = ab_conn_body_error(exchange->conn);
    ab_engine_unlock(exchange->server->engine);
    if (error && error != AB_EPEER) ab_response_error(exchange, ab_http1_error_status(error));
    return false;
  }
  if (is_a(exception, ab_error_class("Shutdown"))) {
    ab_response_error(exchange, 503);
    return false;
  }
  if (is_a(exception, ab_error_class("ClientGone"))) return false;
  if (is_a(exception, ab_error_class("DeadlineExceeded"))) {
    ab_server_log_error(exchange, exception); /* it shows where the app has waited */
    ab_server_answer_last(exchange, 504);
    return false;
  }
  if (ab_server_is_fatal(exception)) {
    ab_response_error(exchange, 500);
    return true;
  }
  ab_server_log_error(exchange, exception);
  answer_failed(exchange, exception);
  return false;
}

static VALUE close_rewindable(VALUE input) {
  return rb_funcall(input, rb_intern("close"), 0);
}

/* Runs fn and remembers the first way in which it failed. */
static void protected_step(VALUE (*fn)(VALUE), ab_exchange *exchange, int *fatal) {
  int state = 0;
  rb_protect(fn, (VALUE)exchange, &state);
  if (!state) return;
  VALUE exception = rb_errinfo();
  if (NIL_P(exchange->error) && is_a(exception, rb_eException)) exchange->error = exception;
  bool forward = blame(exchange);
  if (!forward) {
    rb_set_errinfo(Qnil);
  } else if (!*fatal) {
    *fatal = state;
    /* What stands there for a kill is Ruby's own and no exception. */
    if (is_a(exception, rb_eException)) rb_set_errinfo(exception);
  }
}

enum ab_finish ab_exchange_finish(const ab_exchange *exchange) {
  if (exchange->complete) return AB_FINISH_COMPLETE;
  bool framed = !exchange->head_sent || exchange->chunked || exchange->has_length;
  return framed ? AB_FINISH_BROKEN : AB_FINISH_RESET;
}

static VALUE report_to_stderr(VALUE exception) {
  VALUE text = rb_funcall(exception, rb_intern("full_message"), 0);
  return rb_funcall(rb_stderr, rb_intern("write"), 1, text);
}

/* A forked child has come back from the app: there is nobody here that it could return to. `exit`
 * in it ends it in order, with its at_exit blocks; everything else at once. */
NORETURN(static void leave_child(int fatal));

static void leave_child(int fatal) {
  VALUE exception = rb_errinfo();
  bool is_exception = fatal && is_a(exception, rb_eException);
  if (fatal && (!is_exception || is_a(exception, rb_eSystemExit))) rb_jump_tag(fatal);
  if (is_exception) {
    ab_server_quietly(report_to_stderr, exception);
  } else {
    rb_warn("a forked child came back from the app into the server: it ends here");
  }
  rb_funcall(rb_mProcess, rb_intern("exit!"), 1, fatal ? Qfalse : Qtrue);
  abort();
}

void ab_server_end_child(int state) {
  /* It finds the exit's status in the exception; a status of its own would be taken for a state. */
  ruby_stop(state);
  abort();
}

/* Returns the state to go on with: of two, the first one. A fiber that is being killed has no time
 * for the app's callbacks. */
static int finished(ab_exchange *exchange, int fatal) {
  if (AB_LIKELY(!fatal)) return ab_exchange_finished(exchange);
  VALUE exception = rb_errinfo();
  if (is_a(exception, rb_eException)) {
    ab_exchange_finished(exchange);
    rb_set_errinfo(exception);
  }
  return fatal;
}

ab_taken ab_server_taken(const ab_runner *runner) {
  const ab_request *request = runner->next_request;
  return (ab_taken){
      .conn = runner->next_conn,
      .request = request,
      .env = Qnil,
      .route = runner->next_route,
      .head_request = request->is_head,
      .http_1_0 = request->minor == 0,
  };
}

void ab_server_keep(ab_runner *runner, ab_taken *taken) {
  taken->env = ab_env_build(&runner->server->env, taken->conn, taken->request, NULL);
  taken->request = NULL;
  ab_seat_has_read(&runner->seat);
}

static void answer_failed_app(ab_exchange *exchange, int *fatal) {
  protected_step(answer_failure, exchange, fatal);
  if (AB_UNLIKELY(ab_server_forked(exchange->server))) leave_child(*fatal);
  if (exchange->body_open) protected_step(close_body, exchange, fatal);
}

void ab_server_serve(ab_runner *runner, const ab_taken *taken, ab_exchange *exchange) {
  ab_server *server = runner->server;
  *exchange = (ab_exchange){
      .memory = exchange->memory,
      .generation = exchange->generation,
      .server = server,
      .runner = runner,
      .conn = taken->conn,
      .request = taken->request,
      .env = taken->env,
      .input = Qnil,
      .rewindable = Qnil,
      .ahead = Qnil,
      .trailers = Qnil,
      .result = Qnil,
      .body = Qnil,
      .handle = Qnil,
      .finished = Qnil,
      .replied = Qnil,
      .headers = Qnil,
      .error = Qnil,
      .io = Qnil,
      .fiber = rb_fiber_current(),
      .on_gone = Qnil,
      .on_shutdown = Qnil,
      .on_cancel = Qnil,
      .cancelled = Qnil,
      .head_request = taken->head_request,
      .http_1_0 = taken->http_1_0,
      .route = taken->route,
  };
  ab_list_init(&exchange->waits);
  ab_list_init(&exchange->cancel_link);
  ab_list_init(&exchange->slow_link);
  ab_list_append(&server->exchanges, &exchange->link);
  exchange->began = ab_conn_arrived(exchange->conn);
  ab_conn_set_app(exchange->conn, exchange);
  /* What has happened since it was taken, in a turn before this one. */
  if (!taken->request) {
    ab_engine_lock(server->engine);
    unsigned news = ab_conn_news(exchange->conn);
    ab_engine_unlock(server->engine);
    ab_cancel_note(exchange, news);
  }
  if (server->access_log) exchange->started = ab_clock_monotonic();
  if (AB_UNLIKELY(exchange->route.serial)) ab_hybrid_begin(exchange);

  int fatal = 0;
  protected_step(call_app, exchange, &fatal);
  if (AB_UNLIKELY(exchange->request != NULL)) ab_seat_has_read(&runner->seat);
  if (AB_UNLIKELY(ab_server_forked(server))) leave_child(fatal);
  if (exchange->body_open) protected_step(close_body, exchange, &fatal);
  if (AB_UNLIKELY(exchange->failed)) answer_failed_app(exchange, &fatal);
  exchange->over = true;
  int told = ab_cancel_end(exchange);
  if (AB_UNLIKELY(told)) fatal = told;
  ab_exchange_forget(exchange);
  ab_response_over(runner);
  if (AB_UNLIKELY(exchange->slow == AB_SLOW_LEAVING)) ab_slow_left(exchange);
  if (exchange->file) ab_server_return(server, exchange->file);
  if (!NIL_P(exchange->rewindable)) ab_server_quietly(close_rewindable, exchange->rewindable);

  ab_engine_lock(server->engine);
  ab_server_pass_time(runner);
  ab_conn_finish(exchange->conn, ab_exchange_finish(exchange));
  bool tell = ab_server_must_tell(runner);
  ab_engine_unlock(server->engine);
  if (AB_UNLIKELY(tell)) ab_server_tell_leader(server);
  exchange->conn = NULL;
  if (server->access_log) ab_server_quietly(write_access, (VALUE)exchange);
  int state = finished(exchange, fatal);
  RB_GC_GUARD(exchange->env);
  RB_GC_GUARD(exchange->result);
  RB_GC_GUARD(exchange->body);
  RB_GC_GUARD(exchange->input);
  RB_GC_GUARD(exchange->rewindable);
  RB_GC_GUARD(exchange->ahead);
  RB_GC_GUARD(exchange->trailers);
  if (AB_UNLIKELY(exchange->route.serial)) ab_hybrid_end(exchange);
  ab_list_remove(&exchange->link);
  ab_exchange_give_back(server, exchange);
  if (state) rb_jump_tag(state);
}

void ab_server_refuse(ab_runner *runner, const ab_taken *taken, enum ab_rejection why) {
  ab_server *server = runner->server;
  ab_exchange exchange = {.server = server,
                          .runner = runner,
                          .conn = taken->conn,
                          .head_request = taken->head_request,
                          .http_1_0 = taken->http_1_0};
  server->counts.modes[runner->host->mode].rejected++;
  ab_seat_has_read(&runner->seat);
  ab_server_answer_last(&exchange, 503);
  ab_engine_lock(server->engine);
  ab_engine_note_rejection(server->engine, why);
  ab_conn_finish(taken->conn, ab_exchange_finish(&exchange));
  ab_engine_unlock(server->engine);
}
