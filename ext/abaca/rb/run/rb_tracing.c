/* What a tracer asks and tells of the request that runs where it calls (lib/abaca/compat). */
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_sight.h"
#include "rb/run/rb_clock.h"
#include "rb/scheduler/rb_scheduler.h"

static ab_row *row_on_loop(ab_loop *loop, ab_nsec now) {
  ab_work *work = ab__loop_forked(loop) ? NULL : ab_loop_work(loop);
  if (!work || !work->row) return NULL;
  ab_loop_settle_work(loop, work, now);
  return work->row;
}

/* The row of the request that runs here, charged until now; NULL: there is none. */
static ab_row *row_here(ab_nsec now) {
  VALUE scheduler = rb_fiber_scheduler_get();
  ab_loop *loop = NIL_P(scheduler) ? NULL : ab__loop_or_null(scheduler);
  if (loop) return row_on_loop(loop, now);
  ab_call *call = ab_waiting_call_here();
  if (!call || !call->row) return NULL;
  ab_clock_settle(call, now);
  return call->row;
}

/* call-seq: request_times -> Hash or nil
 *
 * Seconds that the request which runs here has spent in each state so far, without those of 0; nil
 * where none runs, or the page has no row of it. */
static VALUE engine_request_times(VALUE self AB_UNUSED) {
  ab_nsec now = ab_clock_monotonic();
  const ab_row *row = row_here(now);
  if (!row) return Qnil;
  uint64_t times[AB_STATE_COUNT];
  ab_row_times(row, now, times);
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_STATE_COUNT; i++)
    if (times[i]) ab_put(hash, ab_state_name((enum ab_state)i), ab_float_seconds(times[i]));
  return hash;
}

static void read_id(uint8_t *bytes, size_t size, VALUE id) {
  if ((size_t)RSTRING_LEN(id) != size)
    rb_raise(rb_eArgError, "an id of %zu bytes is needed, not %+" PRIsVALUE, size, id);
  memcpy(bytes, RSTRING_PTR(id), size);
}

/* call-seq: trace(trace_id, span_id, sampled) -> true or false
 *
 * The request that runs here belongs to that span: 16 bytes and 8, and whether it is kept. False
 * where none runs. Raises ArgumentError, TypeError. */
static VALUE engine_trace(VALUE self AB_UNUSED, VALUE trace_id, VALUE span_id, VALUE sampled) {
  ab_trace trace = {.sampled = RTEST(sampled)};
  StringValue(trace_id);
  StringValue(span_id);
  read_id(trace.trace, sizeof(trace.trace), trace_id);
  read_id(trace.span, sizeof(trace.span), span_id);
  ab_row *row = row_here(ab_clock_monotonic());
  if (row) ab_row_set_trace(row, &trace);
  return row ? Qtrue : Qfalse;
}

void ab_init_tracing(VALUE cEngine) {
  rb_define_singleton_method(cEngine, "request_times", engine_request_times, 0);
  rb_define_singleton_method(cEngine, "trace", engine_trace, 3);
}
