#include "rb/rack/rb_timing.h"

#include <stdio.h>

#include "http/char.h"
#include "http/field.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_sight.h"

/* --- how it ends --- */

static bool timing_is_a(VALUE exception, const char *name) {
  return RTEST(rb_obj_is_kind_of(exception, ab_class(name)));
}

/* An application may turn the exception into another one on its way out. */
static enum ab_row_end end_by(const ab_call *call) {
  VALUE reason = NIL_P(call->cancelled) ? call->error : call->cancelled;
  if (timing_is_a(reason, "DeadlineExceeded")) return AB_ROW_END_DEADLINE;
  if (timing_is_a(reason, "EndedByOperator")) return AB_ROW_END_OPERATOR;
  if (timing_is_a(reason, "Shutdown")) return AB_ROW_END_SHUTDOWN;
  if (timing_is_a(reason, "ClientGone") || timing_is_a(reason, "PeerError"))
    return AB_ROW_END_CLIENT;
  return AB_ROW_END_APP;
}

enum ab_row_end ab__timing_end(const ab_call *call) {
  return NIL_P(call->error) ? AB_ROW_END_APP : end_by(call);
}

/* --- for the access log --- */

static bool has_times(const ab_call *call, ab_nsec now) {
  if (!call->row) return false;
  return call->rack->logs_times || ab_sight_is_slow(call, now) || ab_sight_has_failed(call);
}

static VALUE times_of(ab_call *call, ab_nsec now) {
  uint64_t times[AB_STATE_COUNT];
  VALUE pairs[2 * AB_STATE_COUNT];
  long count = 0;
  call->rack->hooks->settle(call, now);
  ab_row_times(call->row, now, times);
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    if (times[i] == 0) continue;
    pairs[count++] = ID2SYM(rb_intern(ab_state_name((enum ab_state)i)));
    pairs[count++] = ab_float_seconds(times[i]);
  }
  VALUE hash = rb_hash_new();
  rb_hash_bulk_insert(count, pairs, hash);
  return hash;
}

static VALUE trace_of(const ab_row *row) {
  static const uint8_t none[sizeof(row->trace)];
  if (memcmp(row->trace, none, sizeof(none)) == 0) return Qnil;
  char text[2 * sizeof(none) + 1];
  for (size_t i = 0; i < sizeof(none); i++) snprintf(text + 2 * i, 3, "%02x", row->trace[i]);
  return rb_usascii_str_new(text, 2 * sizeof(none));
}

VALUE ab_timing_account(ab_call *call, ab_nsec now) {
  enum ab_row_end end = ab_timing_end(call);
  bool timed = has_times(call, now);
  if (end == AB_ROW_END_DONE && !timed) return Qnil;
  VALUE name = end == AB_ROW_END_DONE ? Qnil : ID2SYM(rb_intern(ab_row_end_name(end)));
  VALUE times = timed ? times_of(call, now) : Qnil, trace = timed ? trace_of(call->row) : Qnil;
  return rb_ary_new_from_args(3, name, times, trace);
}

/* --- for the client --- */

/* RFC 9110 10.1.4; over HTTP/2 it is the only thing that the field may say. */
static bool takes_trailers(const ab_call *call) {
  VALUE field = rb_hash_lookup(call->env, call->rack->env.strings[AB_ENV_TE]);
  if (!RB_TYPE_P(field, T_STRING)) return false;
  ab_view rest = {RSTRING_PTR(field), (size_t)RSTRING_LEN(field)}, coding;
  while (ab_next_element(&rest, &coding)) {
    if (ab_view_spells(coding, "trailers", 8)) return true;
  }
  return false;
}

static bool is_allowed(const ab_call *call) {
  const ab_rack *rack = call->rack;
  if (NIL_P(rack->timing_guard)) return true;
  VALUE field = rb_hash_lookup(call->env, rack->env.strings[AB_ENV_TIMING]);
  return !NIL_P(field) && RTEST(rb_funcall(rack->timing_guard, rb_intern("allow?"), 1, field));
}

void ab__timing_allow(ab_call *call) {
  if (!is_allowed(call)) return;
  call->timing = ab_alloc_zero(&ab_mem_libc, sizeof(*call->timing));
  if (call->timing) call->timing->trailer = takes_trailers(call);
}

void ab_timing_forget(ab_call *call) {
  ab_free(&ab_mem_libc, call->timing);
  call->timing = NULL;
}

/* Less is no entry. */
#define LEAST (AB_NSEC_PER_MS / 20)

/* "queue;dur=1.2, run;dur=8.4": what is more than was told. */
static void put_times(ab_lines *lines) {
  ab_call *call = lines->call;
  ab_timing *timing = call->timing;
  ab_nsec now = ab_clock_monotonic();
  uint64_t times[AB_STATE_COUNT];
  char text[AB_STATE_COUNT * 40], *end = text + sizeof(text), *p = text;
  if (!call->row) return;
  call->rack->hooks->settle(call, now);
  ab_row_times(call->row, now, times);
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    /* Collections are told apart later than the time that they are a part of. */
    if (times[i] < timing->told[i] + LEAST) continue;
    p += snprintf(p, (size_t)(end - p), "%s%s;dur=%.1f", p == text ? "" : ", ",
                  ab_state_name((enum ab_state)i), (double)(times[i] - timing->told[i]) / 1e6);
  }
  memcpy(timing->told, times, sizeof(times));
  if (p > text) ab_lines_put_field(lines, "Server-Timing", 13, text, (size_t)(p - text));
}

/* Whatever the application has said of its own is another line of the same list. */
void ab__timing_put(ab_lines *head) {
  ab_timing *timing = head->call->timing;
  memset(timing->told, 0, sizeof(timing->told)); /* an answer that was given up has told it */
  put_times(head);
}

void ab_timing_announce(ab_lines *head) {
  const ab_timing *timing = head->call->timing;
  if (timing && timing->trailer) ab_lines_put_field(head, "Trailer", 7, "Server-Timing", 13);
}

void ab_timing_put_rest(ab_lines *lines) {
  const ab_timing *timing = lines->call->timing;
  if (timing && timing->trailer) put_times(lines);
}
