/* Cancellation: what becomes of a request whose client has gone, or whose time is over, while the
 * app works on it. The engine tells it by an event, which may be taken on any fiber; what follows
 * is done at the end of the turn, on the fiber that turns the engine.
 *
 * A request is cancelled once: a second exception would hit the clean-up after the first. An
 * exchange is in server->cancels while there is something to do for it. App code that runs in
 * between may end it, so it is looked up by its handle again. */
#include "rb/server/rb_server.h"

/* A fiber that cannot be interrupted now (it waits for an extension's computation, or for a fiber
 * that it has resumed) is tried again after this time at the latest. */
#define RETRY (50 * AB_NSEC_PER_MS)

void ab_cancel_note(ab_exchange *exchange, unsigned events) {
  if (AB_UNLIKELY(exchange->over)) return;
  exchange->news |=
      events & (AB_EVENT_GONE | AB_EVENT_DEADLINE | AB_NEWS_CLOSING | AB_NEWS_SHUTDOWN);
  if (exchange->news && ab_list_empty(&exchange->cancel_link)) {
    ab_list_append(&exchange->server->cancels, &exchange->cancel_link);
  }
}

/* --- those who want to be told --- */

static VALUE call_block(VALUE block) {
  return rb_proc_call_with_block(block, 0, NULL, Qnil);
}

/* An exception that is not one request's goes on; any other is logged. */
static void log_or_raise(ab_server *server, VALUE env, int state) {
  VALUE exception = rb_errinfo();
  if (!RTEST(rb_obj_is_kind_of(exception, rb_eException)) || ab_server_is_fatal(exception)) {
    rb_jump_tag(state);
  }
  ab_exchange of = {.server = server, .env = env};
  ab_server_log_error(&of, exception);
  rb_set_errinfo(Qnil);
}

static void call_all(ab_server *server, VALUE blocks, VALUE env) {
  for (long i = 0; i < RARRAY_LEN(blocks); i++) {
    int state = 0;
    rb_protect(call_block, RARRAY_AREF(blocks, i), &state);
    if (state) log_or_raise(server, env, state);
  }
}

static VALUE take_blocks(VALUE *from) {
  VALUE blocks = *from;
  *from = Qnil;
  return blocks;
}

/* Server, blocks and env, in an Array: they outlive the exchange. */
static VALUE teller(RB_BLOCK_CALL_FUNC_ARGLIST(arg, told)) {
  call_all(RTYPEDDATA_DATA(RARRAY_AREF(told, 0)), RARRAY_AREF(told, 1), RARRAY_AREF(told, 2));
  RB_GC_GUARD(told);
  return Qnil;
}

static VALUE schedule_teller(VALUE told) {
  return rb_block_call(rb_path2class("Fiber"), rb_intern("schedule"), 0, NULL, teller, told);
}

/* On a fiber of its own, which may wait. */
static void tell_beside(ab_exchange *exchange, VALUE *from) {
  ab_server *server = exchange->server;
  VALUE env = exchange->env, blocks = take_blocks(from);
  if (NIL_P(blocks)) return;
  VALUE told = rb_ary_new_from_args(3, server->self, blocks, env);
  int state = 0;
  rb_protect(schedule_teller, told, &state);
  if (state) log_or_raise(server, env, state); /* there is no fiber to be had */
  RB_GC_GUARD(told);
}

static VALUE tell_here(VALUE arg) {
  ab_exchange *exchange = (ab_exchange *)arg;
  VALUE blocks = take_blocks(&exchange->on_gone);
  if (!NIL_P(blocks)) call_all(exchange->server, blocks, exchange->env);
  RB_GC_GUARD(blocks);
  return Qnil;
}

/* --- those who are cancelled --- */

static VALUE client_gone(void) {
  VALUE message = rb_str_new_cstr("the client has gone");
  return rb_class_new_instance(1, &message, ab_error_class("ClientGone"));
}

static VALUE deadline_exceeded(void) {
  VALUE message = rb_str_new_cstr("the request has taken longer than its request_timeout");
  return rb_class_new_instance(1, &message, ab_error_class("DeadlineExceeded"));
}

/* What the news is for the request's fiber; Qnil: nothing. The end of the server comes to everyone,
 * even to whoever went on after another exception. */
static VALUE exception_for(const ab_exchange *exchange) {
  if (exchange->news & AB_NEWS_SHUTDOWN) return ab_shutdown_exception();
  if (!NIL_P(exchange->cancelled)) return Qnil;
  if (exchange->news & AB_EVENT_DEADLINE) return deadline_exceeded();
  if (exchange->news & AB_EVENT_GONE && exchange->server->cancel_on_disconnect)
    return client_gone();
  return Qnil;
}

/* Once the fiber has the exception the exchange may be over. */
static void attend(ab_exchange *exchange) {
  ab_server *server = exchange->server;
  VALUE handle = exchange->handle;
  if (NIL_P(handle)) { /* another thread is about to call the app for it */
    ab_cancel_note(exchange, exchange->news);
    return;
  }
  if (exchange->news & AB_NEWS_CLOSING) tell_beside(exchange, &exchange->on_shutdown);
  exchange = RTYPEDDATA_DATA(handle);
  if (exchange && exchange->news & AB_EVENT_GONE) tell_beside(exchange, &exchange->on_gone);
  exchange = RTYPEDDATA_DATA(handle);
  if (!exchange) return;
  VALUE exception = exception_for(exchange);
  unsigned news = exchange->news;
  exchange->news = 0;
  if (NIL_P(exception)) return;
  ab_mode_counts *counts = &server->counts.modes[exchange->runner->host->mode];
  VALUE before = exchange->cancelled;
  exchange->cancelled = exception;
  counts->cancelled += NIL_P(before);
  if (exchange->runner->host->interrupt(exchange, exception)) return;
  counts->cancelled -= NIL_P(before);
  exchange->cancelled = before;
  ab_cancel_note(exchange, news);
  RB_GC_GUARD(handle);
}

void ab_cancel_run(ab_server *server, ab_nsec now) {
  server->home.host->settle(&server->home);
  /* A list of the server's, not of this stack: an exception of the app may end the walk. */
  ab_list_splice(&server->attended, &server->cancels);
  for (ab_list *node; (node = ab_list_shift(&server->attended));) {
    attend(AB_CONTAINER_OF(node, ab_exchange, cancel_link));
  }
  server->cancel_retry = ab_list_empty(&server->cancels) ? 0 : now + RETRY;
}

static bool is_gone(ab_exchange *exchange) {
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  bool gone = ab_conn_gone(exchange->conn);
  ab_engine_unlock(engine);
  return gone;
}

static VALUE warn_swallowed(VALUE arg) {
  const ab_exchange *exchange = (const ab_exchange *)arg;
  return rb_funcall(exchange->server->log, rb_intern("swallowed"), 2, exchange->cancelled,
                    exchange->env);
}

int ab__cancel_end(ab_exchange *exchange) {
  ab_list_remove(&exchange->cancel_link);
  if (!NIL_P(exchange->cancelled) && NIL_P(exchange->error)) {
    ab_server_quietly(warn_swallowed, (VALUE)exchange);
  }
  int state = 0;
  if (!NIL_P(exchange->on_gone) && NIL_P(exchange->io) && is_gone(exchange)) {
    rb_protect(tell_here, (VALUE)exchange, &state);
  }
  return state;
}

/* --- Abaca::Exchange --- */

/* Looks at the socket itself: a fiber that only computes gives the engine no turn in which it could
 * have noticed. Of one that the app has taken over we know nothing. */
bool ab_cancel_gone(ab_exchange *exchange) {
  if (!NIL_P(exchange->io)) return false;
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  bool gone = ab_conn_look(exchange->conn);
  ab_engine_unlock(engine);
  return gone;
}

void ab_cancel_set_time(ab_exchange *exchange, ab_nsec time) {
  ab_server *server = exchange->server;
  ab_engine_lock(server->engine);
  ab_conn_set_time(exchange->conn, time);
  ab_engine_unlock(server->engine);
  exchange->news &= ~(unsigned)AB_EVENT_DEADLINE;
  if (server->running) ab_poller_wakeup(server->poller); /* who waits may have to wait shorter */
}

/* Keeps the block, or calls it when it is time already. */
static void keep_block(VALUE *blocks, VALUE block, bool now) {
  if (now) {
    call_block(block);
    return;
  }
  if (NIL_P(*blocks)) *blocks = rb_ary_new();
  rb_ary_push(*blocks, block);
}

void ab_cancel_on_gone(ab_exchange *exchange, VALUE block) {
  keep_block(&exchange->on_gone, block, ab_cancel_gone(exchange));
}

void ab_cancel_on_shutdown(ab_exchange *exchange, VALUE block) {
  keep_block(&exchange->on_shutdown, block, exchange->server->draining);
}
