/* Cancellation: what becomes of a request whose client has gone, or whose time is over, while the
 * app works on it. The engine tells it by an event, which may be taken on any fiber; what follows
 * is done at the end of the turn, on the fiber that turns the engine.
 *
 * A request is cancelled once: a second exception would hit the clean-up after the first. An
 * exchange is in server->cancels while there is something to do for it. That is not done by its own
 * fiber or thread, which may end it while any Ruby code runs, so here everything goes by its handle
 * (see ab_exchange). */
#include "rb/server/rb_gang.h"

/* A fiber that cannot be interrupted now (it waits for an extension's computation, or for a fiber
 * that it has resumed) is tried again after this time at the latest. */
#define RETRY (50 * AB_NSEC_PER_MS)

void ab_cancel_note(ab_exchange *exchange, unsigned events) {
  if (AB_UNLIKELY(exchange->over)) return;
  if (AB_UNLIKELY(exchange->abandoned)) events &= ~(unsigned)AB_EVENT_GONE; /* our own doing */
  exchange->news |=
      events & (AB_EVENT_GONE | AB_EVENT_DEADLINE | AB_NEWS_CLOSING | AB_NEWS_SHUTDOWN);
  if (exchange->news && ab_list_empty(&exchange->cancel_link)) {
    ab_list_append(&exchange->server->cancels, &exchange->cancel_link);
  }
}

/* --- those who want to be told --- */

/* A block of the app's, and what it is called with; Qnil: nothing. */
typedef struct telling {
  VALUE block, exception;
} telling;

static VALUE call_block(VALUE arg) {
  const telling *t = (const telling *)arg;
  return rb_proc_call_with_block(t->block, NIL_P(t->exception) ? 0 : 1, &t->exception, Qnil);
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

static void call_all(ab_server *server, VALUE blocks, VALUE env, VALUE exception) {
  for (long i = 0; i < RARRAY_LEN(blocks); i++) {
    int state = 0;
    telling t = {RARRAY_AREF(blocks, i), exception};
    rb_protect(call_block, (VALUE)&t, &state);
    if (state) log_or_raise(server, env, state);
  }
}

static VALUE take_blocks(VALUE *from) {
  VALUE blocks = *from;
  *from = Qnil;
  return blocks;
}

/* Raises the exception in the request, if that is not over, or tries it again where it cannot be
 * interrupted now. */
static void deliver(VALUE handle, VALUE exception, unsigned news) {
  ab_exchange *exchange = ab_exchange_or_null(handle);
  if (!exchange) return;
  const ab_host *host = exchange->runner->host;
  ab_mode_counts *counts = &exchange->server->counts.modes[host->mode];
  VALUE before = exchange->cancelled;
  exchange->cancelled = exception;
  counts->cancelled += NIL_P(before);
  if (host->interrupt(exchange, exception)) return;
  counts->cancelled -= NIL_P(before);
  exchange = ab_exchange_or_null(handle);
  if (!exchange) return;
  exchange->cancelled = before;
  ab_cancel_note(exchange, news);
}

/* Server, blocks, env, exception and the handle of whom the teller has to interrupt, in an Array:
 * they outlive the exchange. */
static VALUE teller(RB_BLOCK_CALL_FUNC_ARGLIST(arg, told)) {
  VALUE exception = RARRAY_AREF(told, 3), handle = RARRAY_AREF(told, 4);
  const ab_exchange *exchange = NIL_P(handle) ? NULL : ab_exchange_or_null(handle);
  /* The GVL is ours until a block waits: the request feels the exception only then. */
  if (exchange && NIL_P(exchange->cancelled)) deliver(handle, exception, AB_EVENT_DEADLINE);
  call_all(RTYPEDDATA_DATA(RARRAY_AREF(told, 0)), RARRAY_AREF(told, 1), RARRAY_AREF(told, 2),
           exception);
  RB_GC_GUARD(told);
  return Qnil;
}

static bool tells_on_threads(const ab_server *server) {
  return server->home.host == &ab_host_thread;
}

static VALUE schedule_teller(VALUE told) {
  const ab_server *server = RTYPEDDATA_DATA(RARRAY_AREF(told, 0));
  if (tells_on_threads(server)) {
    ab_gang_beside(server->gang, teller, told);
    return Qnil;
  }
  return rb_block_call(rb_path2class("Fiber"), rb_intern("schedule"), 0, NULL, teller, told);
}

/* Has the blocks called on a fiber of its own, which may wait; where there are none, on a thread.
 * Returns false when there was nobody to tell, or no fiber to be had. */
static bool tell_beside(ab_server *server, VALUE blocks, VALUE env, VALUE exception, VALUE handle) {
  if (NIL_P(blocks)) return false;
  VALUE told = rb_ary_new_from_args(5, server->self, blocks, env, exception, handle);
  int state = 0;
  rb_protect(schedule_teller, told, &state);
  if (state) log_or_raise(server, env, state);
  RB_GC_GUARD(told);
  return !state;
}

/* Before the exception is raised. A fiber runs at once until it waits, while a thread would only
 * begin when the request's own may have ended: there, who tells interrupts too. Returns whether he
 * does. */
static bool tell_cancelled(ab_exchange *exchange, VALUE exception) {
  bool threads = tells_on_threads(exchange->server);
  VALUE handle = threads && NIL_P(exchange->cancelled) ? exchange->handle : Qnil;
  VALUE blocks = take_blocks(&exchange->on_cancel);
  return tell_beside(exchange->server, blocks, exchange->env, exception, handle) && !NIL_P(handle);
}

static VALUE tell_here(VALUE arg) {
  ab_exchange *exchange = (ab_exchange *)arg;
  VALUE blocks = take_blocks(&exchange->on_gone);
  if (!NIL_P(blocks)) call_all(exchange->server, blocks, exchange->env, Qnil);
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

typedef VALUE (*maker)(void);

/* Makes what the news is for the request's fiber; NULL: nothing. The end of the server comes to
 * everyone, even to whoever went on after another exception. */
static maker maker_for(const ab_exchange *exchange) {
  if (exchange->news & AB_NEWS_SHUTDOWN) return ab_shutdown_exception;
  if (!NIL_P(exchange->cancelled)) return NULL;
  if (exchange->news & AB_EVENT_DEADLINE) return deadline_exceeded;
  bool gone = exchange->news & AB_EVENT_GONE && exchange->server->cancel_on_disconnect;
  return gone ? client_gone : NULL;
}

static void set_overdue(ab_exchange *exchange) {
  ab_server *server = exchange->server;
  if (exchange->overdue) return;
  exchange->overdue = ab_clock_monotonic() + AB_CANCEL_GRACE;
  if (!server->overdue || exchange->overdue < server->overdue) server->overdue = exchange->overdue;
}

/* Those who wanted to know are told what is no exception. */
static void tell_news(VALUE handle, unsigned news) {
  ab_exchange *exchange = ab_exchange_or_null(handle);
  if (exchange && news & AB_NEWS_CLOSING) {
    VALUE blocks = take_blocks(&exchange->on_shutdown);
    tell_beside(exchange->server, blocks, exchange->env, Qnil, Qnil);
  }
  exchange = ab_exchange_or_null(handle);
  if (exchange && news & AB_EVENT_GONE) {
    VALUE blocks = take_blocks(&exchange->on_gone);
    tell_beside(exchange->server, blocks, exchange->env, Qnil, Qnil);
  }
}

/* The exception that the request is to get now, or Qnil. While it is made another thread may cancel
 * the request, or its time may be extended: it has to be the right one afterwards as well. */
static VALUE make_exception(VALUE handle) {
  VALUE exception = Qnil;
  for (maker made = NULL;;) {
    const ab_exchange *exchange = ab_exchange_or_null(handle);
    maker make = exchange ? maker_for(exchange) : NULL;
    if (make == made) return exception;
    made = make;
    exception = make ? make() : Qnil;
  }
}

/* What has been seen to is no news any more; returns that part of it which still holds. */
static unsigned take_news(ab_exchange *exchange, unsigned seen) {
  unsigned news = exchange->news & seen;
  exchange->news &= ~seen;
  if (!exchange->news) ab_list_remove(&exchange->cancel_link);
  return news;
}

/* Until it is through with it the exchange stays noted: an exception that is meant for nobody here
 * may end this at any call. */
static void attend(ab_exchange *exchange) {
  VALUE handle = exchange->handle;
  unsigned news = exchange->news;
  ab_cancel_note(exchange, news);
  if (NIL_P(handle)) return; /* another thread is about to call the app for it */
  tell_news(handle, news);
  VALUE exception = make_exception(handle);
  exchange = ab_exchange_or_null(handle);
  if (!exchange) return;
  news = take_news(exchange, news);
  if (news & AB_EVENT_DEADLINE) set_overdue(exchange);
  if (NIL_P(exception) || tell_cancelled(exchange, exception)) return;
  deliver(handle, exception, news);
  RB_GC_GUARD(handle);
}

/* --- those who do not end --- */

static VALUE report_abandoned(VALUE arg) {
  const ab_exchange *exchange = (const ab_exchange *)arg;
  double age = (double)(ab_clock_monotonic() - exchange->began) / (double)AB_NSEC_PER_SEC;
  return rb_funcall(exchange->server->log, rb_intern("abandoned"), 2, exchange->env, DBL2NUM(age));
}

void ab_cancel_abandon(ab_exchange *exchange, int status) {
  ab_engine *engine = exchange->server->engine;
  exchange->abandoned = true;
  exchange->overdue = 0;
  exchange->server->counts.modes[exchange->runner->host->mode].abandoned++;
  if (NIL_P(exchange->io)) {
    ab_server_answer_last(exchange, status);
    ab_engine_lock(engine);
    ab_conn_abandon(exchange->conn, ab_exchange_finish(exchange));
    ab_engine_unlock(engine);
  }
  ab_server_quietly(report_abandoned, (VALUE)exchange);
}

/* One whose time is over; NULL: then server->overdue is the next one's. */
static ab_exchange *next_overdue(ab_server *server, ab_nsec now) {
  server->overdue = 0;
  ab_list_each (node, next, &server->exchanges) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    if (!exchange->overdue || exchange->over) continue;
    if (exchange->overdue <= now) return exchange;
    if (!server->overdue || exchange->overdue < server->overdue) {
      server->overdue = exchange->overdue;
    }
  }
  return NULL;
}

static void abandon_overdue(ab_server *server, ab_nsec now) {
  /* The log may let other threads run: each is looked for anew. */
  for (ab_exchange *exchange; (exchange = next_overdue(server, now));) {
    ab_cancel_abandon(exchange, 504);
  }
}

void ab_cancel_run(ab_server *server, ab_nsec now) {
  server->home.host->settle(&server->home);
  /* A list of the server's, not of this stack: an exception of the app may end the walk. */
  ab_list_splice(&server->attended, &server->cancels);
  for (ab_list *node; (node = ab_list_shift(&server->attended));) {
    attend(AB_CONTAINER_OF(node, ab_exchange, cancel_link));
  }
  server->cancel_retry = ab_list_empty(&server->cancels) ? 0 : now + RETRY;
  if (AB_UNLIKELY(server->overdue && now >= server->overdue)) abandon_overdue(server, now);
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
    exchange->server->counts.modes[exchange->runner->host->mode].swallowed++;
    ab_server_quietly(warn_swallowed, (VALUE)exchange);
  }
  int state = 0;
  bool left = exchange->abandoned || !NIL_P(exchange->io);
  if (!NIL_P(exchange->on_gone) && !left && is_gone(exchange)) {
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

static void change_time(ab_exchange *exchange, void (*change)(ab_conn *conn, ab_nsec time),
                        ab_nsec time) {
  ab_server *server = exchange->server;
  ab_engine_lock(server->engine);
  ab_server_pass_time(exchange->runner);
  change(exchange->conn, time);
  ab_engine_unlock(server->engine);
  exchange->news &= ~(unsigned)AB_EVENT_DEADLINE;
  exchange->overdue = 0;
  if (server->running) ab_poller_wakeup(server->poller); /* who waits may have to wait shorter */
}

void ab_cancel_set_time(ab_exchange *exchange, ab_nsec time) {
  change_time(exchange, ab_conn_set_time, time);
}

void ab_cancel_extend(ab_exchange *exchange, ab_nsec time) {
  change_time(exchange, ab_conn_extend, time);
}

static void keep_block(VALUE *blocks, VALUE block) {
  if (NIL_P(*blocks)) *blocks = rb_ary_new();
  rb_ary_push(*blocks, block);
}

void ab_cancel_on_gone(ab_exchange *exchange, VALUE block) {
  if (ab_cancel_gone(exchange)) {
    rb_proc_call_with_block(block, 0, NULL, Qnil);
  } else {
    keep_block(&exchange->on_gone, block);
  }
}

void ab_cancel_on_shutdown(ab_exchange *exchange, VALUE block) {
  if (exchange->server->draining) {
    rb_proc_call_with_block(block, 0, NULL, Qnil);
  } else {
    keep_block(&exchange->on_shutdown, block);
  }
}

void ab_cancel_on_cancel(ab_exchange *exchange, VALUE block) {
  VALUE cancelled = exchange->cancelled;
  if (NIL_P(cancelled)) {
    keep_block(&exchange->on_cancel, block);
  } else {
    rb_proc_call_with_block(block, 1, &cancelled, Qnil);
  }
}
