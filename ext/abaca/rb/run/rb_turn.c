/* A turn of the engine with its requests: the leading thread takes the engine's events, and starts
 * a fiber for each request, or hands it to the thread pool. */
#include "rb/run/rb_turn.h"

#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_process.h"
#include "rb/run/rb_hybrid.h"
#include "rb/run/rb_out_of_band.h"
#include "rb/run/rb_routes.h"
#include "rb/run/rb_slow.h"
#include "rb/run/rb_thread_pool.h"

/* --- events --- */

bool ab__turn_regain_lead(ab_driver *driver) {
  ab_run *run = driver->run;
  if (driver != &run->main) return false;
  while (!ab_lead_take(&run->rack.lead, &driver->runner.participant)) rb_thread_schedule();
  return true;
}

/* Is the driver's next request one for threads, and not taken by one of them? */
static bool goes_to_threads(ab_driver *driver) {
  const ab_run *run = driver->run;
  if (driver->runner.executor->mode == AB_MODE_THREAD) return false;
  const ab_path_rule *rule;
  enum ab_mode mode = ab_routes_mode(run, driver->next.head.request->path, &rule);
  if (mode == AB_MODE_HYBRID) return ab_hybrid_takes_thread(driver);
  return mode == AB_MODE_THREAD;
}

enum news { NEWS_NONE, NEWS_EVENT, NEWS_REQUEST };

/* Requests below this level may begin; 0: none. */
static uint8_t may_begin(ab_driver *driver) {
  if (!driver->runner.executor->available(&driver->runner)) return 0;
  if (!driver->loop || ab_loop_may_begin(driver->loop)) return ab_turn_below(driver);
  driver->late = true;
  return 0;
}

void ab_turn_leaves(ab_run *run, uint8_t below) {
  if (!ab_engine_tells(run->rack.engine, AB_LEVELS)) return;
  atomic_store(&run->rack.lead.gate.shut, below);
  if (run->rack.standby) ab_bell_wake(ab_standby_bell(run->rack.standby));
}

uint8_t ab__turn_below(ab_driver *driver) {
  ab_gate *gate = &driver->run->rack.lead.gate;
  uint8_t below = ab_gate_below(gate, &driver->runner.participant.contender);
  if (below == AB_LEVELS && ab_gate_owes_heavy(gate))
    ab_engine_prefer_heavy(driver->run->rack.engine);
  return below;
}

static ab_taken taken_of(ab_exchange *exchange, ab_head_loan *head) {
  const ab_request *request = head->request;
  return (ab_taken){
      .exchange = exchange,
      .head = ab_head_pass_on(head),
      .env = Qnil,
      .path = Qfalse,
      .route = ab_exchange_route(exchange),
      .level = ab_exchange_level(exchange),
      .head_request = request->is_head,
      .http_1_0 = request->minor == 0,
  };
}

static enum news take_event(ab_driver *driver) {
  ab_run *run = driver->run;
  unsigned events = 0;
  ab_head_loan head = {NULL};
  uint8_t below = may_begin(driver);
  ab_exchange *exchange =
      ab_engine_next(run->rack.engine, below, driver->runner.moment, &events, &head);
  if (!exchange) {
    if (AB_UNLIKELY(below < AB_LEVELS && below > 0)) ab_turn_leaves(run, below);
    return NEWS_NONE;
  }
  if (events & AB_EVENT_REQUEST) {
    driver->next = taken_of(exchange, &head);
    if (AB_LIKELY(!run->threads) || !goes_to_threads(driver)) return NEWS_REQUEST;
    ab_thread_pool_take(run->threads, driver);
    return NEWS_EVENT;
  }
  ab_call *call = ab_exchange_app(exchange);
  if (call) {
    ab_cancel_note(call, events);
    ab_call_wake(call);
  } else if (run->threads) {
    ab_thread_pool_event(run->threads, exchange, events);
  }
  return NEWS_EVENT;
}

bool ab_turn_next(ab_driver *driver) {
  while (AB_LIKELY(ab_turn_leads(driver))) {
    enum news news = take_event(driver);
    if (news == NEWS_EVENT) continue;
    if (news == NEWS_REQUEST) ab_participant_read(&driver->runner.participant);
    return news == NEWS_REQUEST;
  }
  return false;
}

bool ab_turn_take(ab_driver *driver) {
  enum news news;
  do news = take_event(driver);
  while (news == NEWS_EVENT);
  return news == NEWS_REQUEST;
}

ab_taken ab_turn_taken(ab_driver *driver) {
  ab_taken taken = driver->next;
  driver->next.exchange = NULL;
  driver->next.head.request = NULL;
  return taken;
}

void ab_turn_put_back(ab_driver *driver, ab_taken *taken) {
  driver->next = *taken;
  driver->next.env = Qnil; /* nothing marks it there */
  driver->next.path = Qfalse;
  taken->head.request = NULL;
}

static VALUE turn_keep(VALUE arg) {
  void **args = (void **)arg;
  ab_serve_keep(args[0], args[1]);
  return Qnil;
}

int ab_turn_keep(ab_driver *driver, ab_taken *taken) {
  int state = 0;
  rb_protect(turn_keep, (VALUE)(void *[]){&driver->runner, taken}, &state);
  return state;
}

static void refuse_next(ab_driver *driver) {
  ab_taken taken = ab_turn_taken(driver);
  ab_serve_refuse(&driver->runner, &taken, AB_REJECT_NO_FIBER);
}

static VALUE dispatch(VALUE arg) {
  ab_driver *driver = (ab_driver *)arg;
  driver->runner.moment = 0;
  while (ab_turn_next(driver)) {
    /* The kernel may refuse a fiber's stack although the limit was not reached. */
    if (AB_UNLIKELY(!driver->runner.executor->start(&driver->runner))) refuse_next(driver);
  }
  return Qnil;
}

static VALUE dispatched(VALUE arg) {
  ab_driver *driver = (ab_driver *)arg;
  driver->dispatching = false;
  /* An exception, or a kill, came before a fiber had it. */
  bool left = driver->next.exchange && !ab_rack_forked(&driver->run->rack);
  if (AB_UNLIKELY(left)) refuse_next(driver);
  return Qnil;
}

/* --- turns --- */

static VALUE write_notice(VALUE arg) {
  const ab_run *run = ((void **)arg)[0];
  const ab_notice *notice = ((void **)arg)[1];
  char peer[AB_ADDR_TEXT_MAX];
  size_t len = ab_addr_text(&notice->peer, peer);
  VALUE text = rb_sprintf("%s has sent %s to an HTTP port: refused", len ? peer : "a local client",
                          notice->what);
  return rb_funcall(run->rack.log, rb_intern("debug"), 1, text);
}

static VALUE write_record(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg, *record = RARRAY_CONST_PTR(argv[1]);
  return rb_funcallv(argv[0], SYM2ID(record[0]), (int)RARRAY_LEN(argv[1]) - 1, record + 1);
}

void ab_turn_log_stalls(ab_stalls *stalls) {
  for (VALUE record; !NIL_P(record = rb_ary_shift(stalls->records));) {
    VALUE argv[] = {stalls->reporter, record};
    if (!NIL_P(argv[0])) ab_quietly(write_record, (VALUE)argv);
    RB_GC_GUARD(record);
  }
}

/* A spare loses the lead as soon as the main loop wants it. */
static bool lost(ab_driver *driver) {
  return AB_UNLIKELY(driver != &driver->run->main) && !ab_turn_leads(driver);
}

void ab_turn_tidy(ab_driver *driver, ab_nsec now) {
  ab_run *run = driver->run;
  ab_pulse *pulse = &driver->runner.participant.pulse;
  ab_borrow_reap(&run->rack);
  for (ab_notice notice; ab_engine_next_notice(run->rack.engine, &notice);) {
    ab_pulse_leave(pulse);
    ab_quietly(write_notice, (VALUE)(void *[]){run, &notice});
  }
  if (ab_hybrid_has_news(run)) {
    ab_pulse_leave(pulse);
    ab_hybrid_log(run);
  }
  if (AB_UNLIKELY(RARRAY_LEN(run->stalls.records) > 0)) {
    ab_pulse_leave(pulse);
    ab_turn_log_stalls(&run->stalls);
  }
  if (AB_UNLIKELY(ab_cancel_pending(&run->rack, now))) {
    ab_pulse_leave(pulse);
    ab_cancel_run(&run->rack, now);
  }
  ab_nsec slow = ab_slow_due(run);
  if (AB_UNLIKELY(slow) && slow <= now) ab_slow_look(run, now);
  if (run->threads) ab_thread_pool_relieve(run->threads);
  if (run->threads) run->threads_deadline = ab_thread_pool_turn_away(run->threads, now);
  ab_out_of_band_look(run, pulse);
}

bool ab_turn_run(ab_driver *driver, ab_nsec now) {
  ab_run *run = driver->run;
  run->stages->turn(driver, now);
  if (AB_UNLIKELY(run->ending.retired) && !ab_turn_leads(driver))
    return false; /* the app was called */
  ab_engine_begin_turn(run->rack.engine, now);
  bool batch, more;
  driver->late = false;
  do {
    batch = ab_engine_step(run->rack.engine);
    driver->dispatching = true;
    rb_ensure(dispatch, (VALUE)driver, dispatched, (VALUE)driver);
    if (lost(driver)) return false;
    more = ab_engine_end_step(run->rack.engine);
    if (batch && ab_engine_has_siblings(run->rack.engine))
      ab_engine_go_on(run->rack.engine, ab_clock_monotonic());
  } while (batch);
  if (driver->late && ab_engine_tells(run->rack.engine, ab_turn_below(driver))) more = true;
  ab_turn_tidy(driver, now);
  if (!ab_turn_leads(driver)) return false;
  /* Without a fiber to spare the kernel's queue and its back-pressure have to hold what comes. */
  ab_engine_pause(run->rack.engine, !driver->runner.executor->available(&driver->runner));
  return more;
}

ab_nsec ab_turn_deadline(const ab_run *run) {
  ab_nsec deadline = ab_earlier(ab_engine_deadline(run->rack.engine), run->stages->deadline(run));
  deadline = ab_earlier(ab_earlier(deadline, run->rack.cancel_retry), run->rack.overdue);
  deadline = ab_earlier(deadline, ab_slow_due(run));
  return ab_earlier(deadline, run->threads_deadline);
}
