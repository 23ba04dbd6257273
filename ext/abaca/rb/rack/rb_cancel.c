/* The engine tells of what cancels a request by an event, which may be taken on any fiber; what
 * follows is done at the end of the turn, on the fiber that turns the engine.
 *
 * A request is cancelled once: a second exception would hit the clean-up after the first. All goes
 * by the call's handle, as the call's own fiber or thread may end it while Ruby code runs. */
#include "rb/rack/rb_cancel.h"

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_response.h"
#include "rb/rack/rb_sight.h"

/* At most until a fiber that waits for an extension, or for one it resumed, is tried again. */
#define RETRY (50 * AB_NSEC_PER_MS)

void ab_cancel_note(ab_call *call, unsigned events) {
  if (AB_UNLIKELY(call->over)) return;
  if (AB_UNLIKELY(call->abandoned)) events &= ~(unsigned)AB_EVENT_GONE; /* our own doing */
  call->news |= events & (AB_EVENT_GONE | AB_EVENT_DEADLINE | AB_NEWS_CLOSING | AB_NEWS_SHUTDOWN |
                          AB_NEWS_OPERATOR);
  if (call->news && ab_list_empty(&call->cancel_link)) {
    ab_list_append(&call->rack->cancels, &call->cancel_link);
  }
}

/* A block of the app's, and what it is called with; Qnil: nothing. */
typedef struct telling {
  VALUE block, exception;
} telling;

static VALUE call_block(VALUE arg) {
  const telling *t = (const telling *)arg;
  return rb_proc_call_with_block(t->block, NIL_P(t->exception) ? 0 : 1, &t->exception, Qnil);
}

/* An exception that is not one request's goes on; any other is logged. */
static void log_or_raise(const ab_rack *rack, VALUE env, int state) {
  VALUE exception = rb_errinfo();
  if (!ab_is_exception(exception) || ab_is_fatal(exception)) rb_jump_tag(state);
  ab_call_log_error(rack, exception, env);
  rb_set_errinfo(Qnil);
}

static void call_all(const ab_rack *rack, VALUE blocks, VALUE env, VALUE exception) {
  for (long i = 0; i < RARRAY_LEN(blocks); i++) {
    int state = 0;
    telling t = {RARRAY_AREF(blocks, i), exception};
    rb_protect(call_block, (VALUE)&t, &state);
    if (state) log_or_raise(rack, env, state);
  }
}

static VALUE take_blocks(VALUE *from) {
  VALUE blocks = *from;
  *from = Qnil;
  return blocks;
}

/* Raises it in the request, if that is not over; notes the news again where it cannot now. */
static void deliver(VALUE handle, VALUE exception, unsigned news) {
  ab_call *call = ab_call_or_null(handle);
  if (!call) return;
  const ab_executor *executor = call->runner->executor;
  ab_mode_counts *counts = &call->rack->counts[executor->mode];
  VALUE before = call->cancelled;
  const ab_rack *rack = call->rack;
  uint64_t id = call->id;
  ab_nsec began = call->began;
  call->cancelled = exception;
  counts->cancelled += NIL_P(before);
  if (executor->interrupt(call, exception)) {
    ab_sight_note(rack, AB_PAGE_EVENT_CANCEL, id, ab_clock_monotonic() - began,
                  rb_obj_classname(exception));
    return;
  }
  counts->cancelled -= NIL_P(before);
  call = ab_call_or_null(handle);
  if (!call) return;
  call->cancelled = before;
  ab_cancel_note(call, news);
}

/* `told`, which outlives the call: engine, blocks, env, exception, handle to interrupt or nil. */
static VALUE teller(RB_BLOCK_CALL_FUNC_ARGLIST(arg, told)) {
  VALUE exception = RARRAY_AREF(told, 3), handle = RARRAY_AREF(told, 4);
  const ab_call *call = NIL_P(handle) ? NULL : ab_call_or_null(handle);
  /* The GVL is ours until a block waits: the request feels the exception only then. */
  if (call && NIL_P(call->cancelled)) {
    deliver(handle, exception, call->by_operator ? AB_NEWS_OPERATOR : AB_EVENT_DEADLINE);
  }
  call_all(ab_rack_of(RARRAY_AREF(told, 0)), RARRAY_AREF(told, 1), RARRAY_AREF(told, 2), exception);
  RB_GC_GUARD(told);
  return Qnil;
}

static bool tells_on_threads(const ab_rack *rack) {
  return rack->main->executor->run_beside != NULL;
}

static VALUE schedule_teller(VALUE told) {
  const ab_rack *rack = ab_rack_of(RARRAY_AREF(told, 0));
  if (tells_on_threads(rack)) {
    rack->main->executor->run_beside(rack->main, teller, told);
    return Qnil;
  }
  return rb_block_call(rb_path2class("Fiber"), rb_intern("schedule"), 0, NULL, teller, told);
}

/* Has the blocks called on a separate fiber, which may wait, or on a thread where there are none.
 * Returns false if there were no blocks, or neither could be had. */
static bool tell_beside(const ab_rack *rack, VALUE blocks, VALUE env, VALUE exception,
                        VALUE handle) {
  if (NIL_P(blocks)) return false;
  VALUE told = rb_ary_new_from_args(5, rack->self, blocks, env, exception, handle);
  int state = 0;
  rb_protect(schedule_teller, told, &state);
  if (state) log_or_raise(rack, env, state);
  RB_GC_GUARD(told);
  return !state;
}

/* Before the exception is raised. A fiber runs at once until it waits, while a thread would only
 * begin when the request's own may have ended: there the teller interrupts too. Returns whether it
 * does. */
static bool tell_cancelled(ab_call *call, VALUE exception) {
  bool threads = tells_on_threads(call->rack);
  VALUE handle = threads && NIL_P(call->cancelled) ? call->handle : Qnil;
  VALUE blocks = take_blocks(&call->on_cancel);
  return tell_beside(call->rack, blocks, call->env, exception, handle) && !NIL_P(handle);
}

static VALUE tell_here(VALUE arg) {
  ab_call *call = (ab_call *)arg;
  VALUE blocks = take_blocks(&call->on_gone);
  if (!NIL_P(blocks)) call_all(call->rack, blocks, call->env, Qnil);
  RB_GC_GUARD(blocks);
  return Qnil;
}

typedef struct reason {
  const char *class, *message;
} reason;

static const reason client_gone = {"ClientGone", "the client has gone"};
static const reason deadline_exceeded = {"DeadlineExceeded",
                                         "the request has taken longer than its request_timeout"};
static const reason by_operator = {"EndedByOperator", "an operator has ended the request"};
static const reason shutdown = {"Shutdown", "the server is shutting down"};

static VALUE exception_for(const reason *why) {
  VALUE message = rb_str_new_cstr(why->message);
  return rb_class_new_instance(1, &message, ab_class(why->class));
}

VALUE ab_cancel_shutdown(void) {
  return exception_for(&shutdown);
}

/* NULL: none. The end of the server comes even to a request that went on after an exception. */
static const reason *reason_for(const ab_call *call) {
  if (call->news & AB_NEWS_SHUTDOWN) return &shutdown;
  if (!NIL_P(call->cancelled)) return NULL;
  if (call->news & AB_NEWS_OPERATOR) return &by_operator;
  if (call->news & AB_EVENT_DEADLINE) return &deadline_exceeded;
  bool gone = call->news & AB_EVENT_GONE && call->rack->cancel_on_disconnect;
  return gone ? &client_gone : NULL;
}

static void set_overdue(ab_call *call) {
  ab_rack *rack = call->rack;
  if (call->overdue) return;
  call->overdue = ab_clock_monotonic() + AB_CANCEL_GRACE;
  rack->overdue = ab_earlier(rack->overdue, call->overdue);
}

static void tell_news(VALUE handle, unsigned news) {
  ab_call *call = ab_call_or_null(handle);
  if (call && news & AB_NEWS_CLOSING) {
    tell_beside(call->rack, take_blocks(&call->on_shutdown), call->env, Qnil, Qnil);
  }
  call = ab_call_or_null(handle);
  if (call && news & AB_EVENT_GONE) {
    tell_beside(call->rack, take_blocks(&call->on_gone), call->env, Qnil, Qnil);
  }
}

/* The exception that the request is to get now, or Qnil. While it is made another thread may cancel
 * the request, or its time may be extended: it has to be the right one afterwards as well. */
static VALUE make_exception(VALUE handle) {
  VALUE exception = Qnil;
  for (const reason *last = NULL;;) {
    const ab_call *call = ab_call_or_null(handle);
    const reason *why = call ? reason_for(call) : NULL;
    if (why == last) return exception;
    last = why;
    exception = why ? exception_for(why) : Qnil;
  }
}

/* What has been seen to is no news any more; returns that part of it which still holds. */
static unsigned take_news(ab_call *call, unsigned seen) {
  unsigned news = call->news & seen;
  call->news &= ~seen;
  if (!call->news) ab_list_remove(&call->cancel_link);
  return news;
}

/* The call stays noted until this is done: an exception that is not meant for it may end this at
 * any call. */
static void attend(ab_call *call) {
  VALUE handle = call->handle;
  unsigned news = call->news;
  ab_cancel_note(call, news);
  if (NIL_P(handle)) return; /* another thread is about to call the app for it */
  tell_news(handle, news);
  VALUE exception = make_exception(handle);
  call = ab_call_or_null(handle);
  if (!call) return;
  news = take_news(call, news);
  if (news & AB_NEWS_OPERATOR) call->by_operator = true;
  if (news & (AB_EVENT_DEADLINE | AB_NEWS_OPERATOR)) set_overdue(call);
  if (NIL_P(exception) || tell_cancelled(call, exception)) return;
  deliver(handle, exception, news);
  RB_GC_GUARD(handle);
}

static VALUE report_abandoned(VALUE arg) {
  const ab_call *call = (const ab_call *)arg;
  VALUE age = ab_float_seconds(ab_clock_monotonic() - call->began);
  return rb_funcall(call->rack->log, rb_intern("abandoned"), 2, call->env, age);
}

void ab_cancel_abandon(ab_call *call, int status) {
  ab_engine *engine = call->rack->engine;
  call->abandoned = true;
  call->overdue = 0;
  call->rack->counts[call->runner->executor->mode].abandoned++;
  if (NIL_P(call->io)) {
    ab_response_last(call, status);
    ab_engine_lock(engine);
    ab_exchange_abandon(call->exchange, ab_call_finish(call));
    ab_engine_unlock(engine);
  }
  ab_quietly(report_abandoned, (VALUE)call);
}

/* One whose time is over; NULL: then rack->overdue is the next one's. */
static ab_call *next_overdue(ab_rack *rack, ab_nsec now) {
  rack->overdue = 0;
  ab_list_each (node, next, &rack->calls) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (!call->overdue || call->over) continue;
    if (call->overdue <= now) return call;
    rack->overdue = ab_earlier(rack->overdue, call->overdue);
  }
  return NULL;
}

static void abandon_overdue(ab_rack *rack, ab_nsec now) {
  /* The log may let other threads run: each is looked for anew. */
  for (ab_call *call; (call = next_overdue(rack, now));) {
    ab_cancel_abandon(call, call->by_operator ? 503 : 504);
  }
}

void ab_cancel_run(ab_rack *rack, ab_nsec now) {
  if (rack->main->executor->settle) rack->main->executor->settle(rack->main);
  /* A list of the rack's, not of this stack: an exception of the app may end the walk. */
  ab_list_splice(&rack->attended, &rack->cancels);
  for (ab_list *node; (node = ab_list_shift(&rack->attended));) {
    attend(AB_CONTAINER_OF(node, ab_call, cancel_link));
  }
  rack->cancel_retry = ab_list_empty(&rack->cancels) ? 0 : now + RETRY;
  if (AB_UNLIKELY(rack->overdue && now >= rack->overdue)) abandon_overdue(rack, now);
}

static VALUE warn_swallowed(VALUE arg) {
  const ab_call *call = (const ab_call *)arg;
  return rb_funcall(call->rack->log, rb_intern("swallowed"), 2, call->cancelled, call->env);
}

int ab__cancel_end(ab_call *call) {
  ab_list_remove(&call->cancel_link);
  if (!NIL_P(call->cancelled) && NIL_P(call->error)) {
    call->rack->counts[call->runner->executor->mode].swallowed++;
    ab_quietly(warn_swallowed, (VALUE)call);
  }
  int state = 0;
  bool left = call->abandoned || !NIL_P(call->io);
  if (!NIL_P(call->on_gone) && !left && ab_call_gone(call)) {
    rb_protect(tell_here, (VALUE)call, &state);
  }
  return state;
}
