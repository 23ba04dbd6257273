/* A turn of the engine with its requests: who leads takes the engine's events and starts a fiber
 * for each request, which rb_serve.c serves, or hands it over to a thread of the gang. */
#include "rb/server/rb_server.h"

#include "rb/server/rb_gang.h"
#include "rb/server/rb_hybrid.h"

/* --- events --- */

bool ab__server_regain_lead(ab_runner *runner) {
  ab_server *server = runner->server;
  if (runner != &server->home) return false;
  while (!ab_lead_take(&server->lead, &runner->seat)) rb_thread_schedule();
  return true;
}

void ab_server_tell_leader(ab_server *server) {
  if (server->poller) ab_poller_wakeup(server->poller);
}

/* Is the request in next_request one for threads, and not taken by one of them? */
static bool goes_to_gang(ab_runner *runner) {
  const ab_server *server = runner->server;
  if (runner->host == &ab_host_thread) return false;
  const ab_path_rule *rule;
  enum ab_mode mode = ab_server_mode_of(server, runner->next_request->path, &rule);
  runner->next_route = (ab_route){0};
  if (mode == AB_MODE_HYBRID) return ab_hybrid_takes_thread(runner, rule);
  return mode == AB_MODE_THREAD;
}

enum news { NEWS_NONE, NEWS_EVENT, NEWS_REQUEST };

/* Is there room for one more request, and time for it in this turn? */
static bool may_begin(ab_runner *runner) {
  if (!runner->host->available(runner)) return false;
  if (!runner->loop || ab_loop_may_begin(runner->loop)) return true;
  runner->late = true;
  return false;
}

/* Takes one event of the engine. */
static enum news take_event(ab_runner *runner) {
  ab_server *server = runner->server;
  unsigned events = 0;
  const ab_request *request = NULL;
  ab_conn *conn = ab_engine_next(server->engine, may_begin(runner), &events, &request);
  if (!conn) return NEWS_NONE;
  if (events & AB_EVENT_REQUEST) {
    runner->next_conn = conn;
    runner->next_request = request;
    if (AB_LIKELY(!server->gang) || !goes_to_gang(runner)) return NEWS_REQUEST;
    ab_gang_take(server->gang, runner);
    return NEWS_EVENT;
  }
  ab_exchange *exchange = ab_conn_app(conn);
  if (exchange) {
    ab_cancel_note(exchange, events);
    ab_exchange_wake(exchange);
  } else if (server->gang) {
    ab_gang_event(server->gang, conn, events);
  }
  return NEWS_EVENT;
}

bool ab_server_next(ab_runner *runner) {
  while (AB_LIKELY(ab_server_leads(runner))) {
    enum news news = take_event(runner);
    if (news == NEWS_EVENT) continue;
    if (news == NEWS_REQUEST) ab_seat_read(&runner->seat);
    return news == NEWS_REQUEST;
  }
  return false;
}

bool ab_server_take(ab_runner *runner) {
  enum news news;
  do news = take_event(runner);
  while (news == NEWS_EVENT);
  return news == NEWS_REQUEST;
}

static VALUE dispatch(VALUE arg) {
  ab_runner *runner = (ab_runner *)arg;
  while (ab_server_next(runner)) {
    if (AB_LIKELY(runner->host->start(runner))) continue;
    /* The kernel refused a fiber's stack although the limit was not reached. */
    ab_taken taken = ab_server_taken(runner);
    ab_server_refuse(runner, &taken, AB_REJECT_NO_FIBER);
  }
  return Qnil;
}

static VALUE dispatched(VALUE arg) {
  ((ab_runner *)arg)->dispatching = false;
  return Qnil;
}

/* --- turns --- */

static VALUE write_notice(VALUE arg) {
  const ab_server *server = ((void **)arg)[0];
  const ab_notice *notice = ((void **)arg)[1];
  char peer[AB_ADDR_TEXT_MAX];
  size_t len = ab_addr_text(&notice->peer, peer);
  VALUE text = rb_sprintf("%s has sent %s to an HTTP port: refused", len ? peer : "a local client",
                          notice->what);
  return rb_funcall(server->log, rb_intern("debug"), 1, text);
}

/* A spare loses the lead as soon as home wants it. */
static bool lost(ab_runner *runner) {
  return AB_UNLIKELY(runner != &runner->server->home) && !ab_server_leads(runner);
}

void ab_server_tidy(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  ab_server_take_released(server);
  for (ab_notice notice; ab_engine_next_notice(server->engine, &notice);) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_server_quietly(write_notice, (VALUE)(void *[]){server, &notice});
  }
  if (ab_hybrid_has_news(server)) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_hybrid_log(server);
  }
  if (ab_stalls_found(server)) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_stalls_log(server);
  }
  if (AB_UNLIKELY(ab_cancel_pending(server, now))) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_cancel_run(server, now);
  }
  ab_nsec slow = ab_slow_due(server);
  if (AB_UNLIKELY(slow) && slow <= now) ab_slow_look(server, now);
  if (server->gang) ab_gang_relieve(server->gang);
  if (server->gang) server->gang_deadline = ab_gang_turn_away(server->gang, now);
}

bool ab_server_turn(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  ab_shutdown_turn(runner, now);
  if (AB_UNLIKELY(server->retired) && !ab_server_leads(runner))
    return false; /* the app was called */
  ab_engine_begin_turn(server->engine, now);
  bool batch, more;
  runner->late = false;
  do {
    batch = ab_engine_step(server->engine);
    runner->dispatching = true;
    rb_ensure(dispatch, (VALUE)runner, dispatched, (VALUE)runner);
    if (lost(runner)) return false;
    more = ab_engine_end_step(server->engine);
  } while (batch);
  if (runner->late && ab_engine_tells(server->engine, true)) more = true;
  ab_server_tidy(runner, now);
  if (!ab_server_leads(runner)) return false;
  /* Without a fiber to spare the kernel's queue and its back-pressure have to hold what comes. */
  ab_engine_pause(server->engine, !runner->host->available(runner));
  return more;
}

ab_nsec ab_server_deadline(void *ctx) {
  ab_server *server = ctx;
  ab_nsec deadline = ab_earlier(ab_engine_deadline(server->engine), ab_shutdown_deadline(server));
  deadline = ab_earlier(ab_earlier(deadline, server->cancel_retry), server->overdue);
  deadline = ab_earlier(deadline, ab_slow_due(server));
  return ab_earlier(deadline, server->gang_deadline);
}
