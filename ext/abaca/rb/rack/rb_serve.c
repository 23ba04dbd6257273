/* One call, on the fiber of its request: the app is called, its response written, and however
 * either ends, by an exception, a kill or a fork, the call ends exactly once. */
#include "rb/rack/rb_serve.h"

#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_response.h"
#include "rb/rack/rb_sight.h"
#include "rb/rack/rb_timing.h"
#include "rb/rack/rb_tls_info.h"
#include "rb/scheduler/rb_work.h"

static void add_input(ab_call *call, const ab_body *body) {
  ab_rack *rack = call->rack;
  VALUE input = ab_input_make(call);
  if (rack->rewindable_input) {
    VALUE argv[] = {input, ULL2NUM(ab_exchange_limits(call->exchange)->max_body_memory)};
    input = call->rewindable = rb_class_new_instance(2, argv, rack->rewindable_class);
  }
  rb_hash_aset(call->env, rack->env.strings[AB_ENV_INPUT], input);
  if (body->chunked || ab_exchange_is_stream(call->exchange)) {
    call->trailers = rb_hash_new();
    rb_hash_aset(call->env, rack->env.strings[AB_ENV_TRAILERS], call->trailers);
  }
}

static VALUE call_app(VALUE arg) {
  ab_call *call = (ab_call *)arg;
  ab_rack *rack = call->rack;
  ab_call_begin(call);
  const ab_body *body = ab_exchange_body(call->exchange);
  if (body) add_input(call, body);
  if (AB_UNLIKELY(ab_exchange_is_secure(call->exchange))) ab_tls_info_add(call);
  call->env_size = RHASH_SIZE(call->env);
  call->result = rack->app_is_proc ? rb_proc_call_with_block(rack->app, 1, &call->env, Qnil)
                                   : rb_funcallv(rack->app, rack->id_call, 1, &call->env);
  /* A child that the app forked must not answer on its parent's connection. */
  if (AB_UNLIKELY(ab_rack_forked(rack))) return Qnil;
  if (!call->runner->executor->in_turns) { /* for the date */
    ab_engine_lock(rack->engine);
    ab_runner_pass_time(call->runner);
    ab_engine_unlock(rack->engine);
  }
  ab_response_write(call);
  return Qnil;
}

static VALUE close_body(VALUE arg) {
  ab_response_close_body((ab_call *)arg);
  return Qnil;
}

static VALUE write_access(VALUE arg) {
  ab_call *call = (ab_call *)arg;
  ab_nsec now = ab_clock_monotonic();
  VALUE seconds = ab_float_seconds(now - call->started);
  bool unanswered = call->hijacked && call->status != 101;
  VALUE status = unanswered ? Qnil : INT2FIX(call->status);
  return rb_funcall(call->rack->access_log, rb_intern("record"), 6, call->env, status,
                    ULL2NUM(call->body_sent), seconds, call->headers, ab_timing_account(call, now));
}

static bool serve_is_a(VALUE exception, VALUE klass) {
  return RTEST(rb_obj_is_kind_of(exception, klass));
}

/* The app has raised. What is set up for its errors answers as soon as its body is closed; when
 * that raises as well, the server does. */
static void fail(ab_call *call, int status) {
  bool ask =
      !NIL_P(call->rack->error_answers) && !call->failed && !call->head_sent && !call->hijacked;
  if (!ask) {
    ab_response_error(call, status);
  } else {
    call->failed = status;
  }
}

/* The response that has failed before its head was sent leaves nothing behind. */
static void take_back(ab_call *call) {
  if (call->file) ab_borrow_return(call->rack, call->file);
  call->file = NULL;
  call->body = call->headers = Qnil;
  call->chunked = call->has_length = call->no_content = call->overrun = false;
  call->body_left = 0;
}

static VALUE answer_failure(VALUE arg) {
  ab_call *call = (ab_call *)arg;
  take_back(call);
  VALUE argv[] = {call->error, call->env, INT2FIX(call->failed)};
  call->result = rb_funcallv(call->rack->error_answers, rb_intern("call"), 3, argv);
  ab_response_write(call);
  return Qnil;
}

/* What a cancelled request raises on its way out does not change why it ends. */
static void answer_failed(ab_call *call, VALUE exception) {
  if (serve_is_a(call->cancelled, ab_class("DeadlineExceeded"))) {
    ab_response_last(call, 504);
  } else if (serve_is_a(call->cancelled, ab_class("EndedByOperator"))) {
    ab_response_last(call, 503);
  } else if (serve_is_a(call->cancelled, ab_class("Shutdown"))) {
    ab_response_error(call, 503);
  } else {
    fail(call, serve_is_a(exception, ab_class("StorageError")) ? 507 : 500);
  }
}

/* Deals with what ended the app's call or its body by an exception, by blame (errors.rb). Returns
 * true when it concerns the process and has to go on. */
static bool blame(ab_call *call) {
  VALUE exception = rb_errinfo();
  if (ab_rack_forked(call->rack)) return true;
  if (!ab_is_exception(exception)) { /* the fiber or its thread is being killed */
    ab_response_error(call, 500);
    return true;
  }
  if (serve_is_a(exception, ab_class("PeerError"))) {
    ab_engine_lock(call->rack->engine);
    int error = ab_exchange_body_error(call->exchange);
    ab_engine_unlock(call->rack->engine);
    if (error && error != AB_EPEER) ab_response_error(call, ab_http_error_status(error));
    return false;
  }
  if (serve_is_a(exception, ab_class("Shutdown"))) {
    ab_response_error(call, 503);
    return false;
  }
  if (serve_is_a(exception, ab_class("ClientGone"))) return false;
  bool late = serve_is_a(exception, ab_class("DeadlineExceeded"));
  if (late || serve_is_a(exception, ab_class("EndedByOperator"))) {
    ab_call_log_error(call->rack, exception, call->env); /* it shows where the app has waited */
    ab_response_last(call, late ? 504 : 503);
    return false;
  }
  if (ab_is_fatal(exception)) {
    ab_response_error(call, 500);
    return true;
  }
  ab_call_log_error(call->rack, exception, call->env);
  answer_failed(call, exception);
  return false;
}

static VALUE close_rewindable(VALUE input) {
  return rb_funcall(input, rb_intern("close"), 0);
}

/* Runs fn and remembers the first way in which it failed. */
static void protected_step(VALUE (*fn)(VALUE), ab_call *call, int *fatal) {
  int state = 0;
  rb_protect(fn, (VALUE)call, &state);
  if (!state) return;
  VALUE exception = rb_errinfo();
  if (NIL_P(call->error) && ab_is_exception(exception)) call->error = exception;
  bool forward = blame(call);
  if (!forward) {
    rb_set_errinfo(Qnil);
  } else if (!*fatal) {
    *fatal = state;
    /* What stands there for a kill is Ruby's own and no exception. */
    if (ab_is_exception(exception)) rb_set_errinfo(exception);
  }
}

/* Returns the state to go on with: of two, the first one. A fiber that is being killed has no time
 * for the app's callbacks. */
static int finished(ab_call *call, int fatal) {
  if (AB_LIKELY(!fatal)) return ab_finished_run(call);
  VALUE exception = rb_errinfo();
  if (ab_is_exception(exception)) {
    ab_finished_run(call);
    rb_set_errinfo(exception);
  }
  return fatal;
}

void ab_serve_keep(ab_runner *runner, ab_taken *taken) {
  ab_rack *rack = runner->rack;
  const ab_request *request = taken->head.request;
  bool plain = rack->sight && ab_sight_takes_plain(rack, taken->exchange, request);
  VALUE path;
  taken->env = ab_env_build(&rack->env, taken->exchange, request, NULL, &path);
  taken->path = plain ? path : Qfalse;
  ab_runner_has_read(runner, taken->exchange, &taken->head);
}

static void answer_failed_app(ab_call *call, int *fatal) {
  protected_step(answer_failure, call, fatal);
  if (AB_UNLIKELY(ab_rack_forked(call->rack))) ab_leave_child(*fatal);
  if (call->body_open) protected_step(close_body, call, fatal);
}

/* The end of one request is the beginning of the next, where that follows at once. */
static ab_nsec moment_of(ab_runner *runner) {
  ab_nsec now = runner->moment;
  if (now == 0) return ab_clock_monotonic();
  runner->moment = 0;
  return now;
}

static void begin(ab_runner *runner, ab_taken *taken, ab_call *call) {
  ab_rack *rack = runner->rack;
  ab_nsec now = moment_of(runner);
  *call = (ab_call){
      .generation = call->generation,
      .own_row = call->own_row,
      .rack = rack,
      .runner = runner,
      .exchange = taken->exchange,
      .head = ab_head_pass_on(&taken->head),
      .env = taken->env,
      .fiber = rb_fiber_current(),
      .id = ++rack->last_id,
      .head_request = taken->head_request,
      .http_1_0 = taken->http_1_0,
      .started = now,
      .measure.route = taken->route,
  };
  call->handle = call->result = call->headers = call->body = call->error = call->io = Qnil;
  call->input = call->rewindable = call->ahead = call->trailers = Qnil;
  call->finished = call->replied = call->cancelled = Qnil;
  call->on_gone = call->on_shutdown = call->on_cancel = Qnil;
  ab_list_init(&call->waits);
  ab_list_init(&call->cancel_link);
  ab_list_init(&call->slow.link);
  ab_list_append(&rack->calls, &call->link);
  call->began = ab_exchange_arrived(call->exchange);
  ab_exchange_set_app(call->exchange, call);
  /* What has happened since it was taken, in a turn before this one. */
  if (!call->head.request) {
    ab_engine_lock(rack->engine);
    unsigned news = ab_exchange_news(call->exchange);
    ab_engine_unlock(rack->engine);
    ab_cancel_note(call, news);
  }
  if (rack->sight) ab_sight_begin(call, taken, now);
  bool measured = call->measure.route.serial != 0;
  if (!call->row && AB_LIKELY(!measured)) return;
  if (AB_LIKELY(runner->loop != NULL)) {
    call->work = AB_LIKELY(!measured) ? ab_loop_begin_plain_work(runner->loop, call->row)
                                      : ab_loop_begin_work(runner->loop, call->row, true, now);
  } else {
    rack->hooks->begins(call, now);
  }
}

/* Nothing is left to do if it was over when its response was queued (ab_sight_replies). */
static inline void end(ab_runner *runner, ab_call *call) {
  bool heavy = ab_gate_level(&runner->participant.contender) > 0;
  if (AB_LIKELY(!call->row && !call->measure.route.serial && !heavy)) return;
  ab_nsec now = runner->moment = ab_clock_monotonic();
  runner->rack->hooks->ends(call, now);
  if (call->row) ab_sight_end(call);
}

void ab_serve_request(ab_runner *runner, ab_taken *taken, ab_call *call) {
  ab_rack *rack = runner->rack;
  /* Before the collections that this request causes, or what was sent grows old in them. */
  if (ab_borrow_released(rack)) ab_borrow_reap(rack);
  begin(runner, taken, call);
  int fatal = 0;
  protected_step(call_app, call, &fatal);
  if (AB_UNLIKELY(ab_rack_forked(rack))) ab_leave_child(fatal);
  if (AB_UNLIKELY(call->head.request != NULL)) {
    ab_runner_has_read(runner, call->exchange, &call->head);
  }
  if (call->body_open) protected_step(close_body, call, &fatal);
  if (AB_UNLIKELY(call->failed)) answer_failed_app(call, &fatal);
  call->over = true;
  ab_sight_answered(call);
  int told = ab_cancel_end(call);
  if (AB_UNLIKELY(told)) fatal = told;
  ab_call_forget(call);
  ab_response_over(runner);
  if (AB_UNLIKELY(call->slow.state == AB_SLOW_LEAVING)) rack->hooks->left(call);
  if (call->file) ab_borrow_return(rack, call->file);
  if (AB_UNLIKELY(call->timing != NULL)) ab_timing_forget(call);
  if (!NIL_P(call->rewindable)) ab_quietly(close_rewindable, call->rewindable);
  if (call->exchange) { /* ab_head_queue may have done it */
    if (call->row) ab_sight_replies(call, call->body_sent);
    ab_engine_lock(rack->engine);
    bool tell = ab_call_end_exchange(call);
    ab_engine_unlock(rack->engine);
    if (AB_UNLIKELY(tell)) ab_rack_tell_leader(rack);
  }
  if (!NIL_P(rack->access_log)) ab_quietly(write_access, (VALUE)call);
  int state = AB_LIKELY(call->quiet) ? fatal : finished(call, fatal);
  end(runner, call);
  ab_list_remove(&call->link);
  ab_call_give_back(rack, call);
  if (AB_UNLIKELY(rack->tells_end) && ab_list_empty(&rack->calls)) ab_rack_tell_leader(rack);
  if (state) rb_jump_tag(state);
}

static void serve_refuse(ab_runner *runner, ab_taken *taken, enum ab_rejection why, bool waited) {
  ab_rack *rack = runner->rack;
  ab_call call = {.rack = rack,
                  .runner = runner,
                  .exchange = taken->exchange,
                  .head_request = taken->head_request,
                  .http_1_0 = taken->http_1_0};
  rack->counts[runner->executor->mode].rejected++;
  ab_runner_has_read(runner, taken->exchange, &taken->head);
  ab_response_last(&call, 503);
  ab_engine_lock(rack->engine);
  if (!waited) ab_engine_count_begun(rack->engine, false);
  ab_engine_note_rejection(rack->engine, why);
  ab_exchange_finish(taken->exchange, ab_call_finish(&call));
  ab_engine_unlock(rack->engine);
}

void ab_serve_refuse(ab_runner *runner, ab_taken *taken, enum ab_rejection why) {
  serve_refuse(runner, taken, why, false);
}

void ab_serve_turn_away(ab_runner *runner, ab_taken *taken, enum ab_rejection why) {
  serve_refuse(runner, taken, why, true);
}
