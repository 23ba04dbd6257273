/* The head of a final response, with what the server adds (RFC 9112 4, 6, 9). */
#include "http/char.h"
#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_response.h"
#include "rb/rack/rb_sight.h"
#include "rb/rack/rb_timing.h"

VALUE ab_head_put(ab_lines *head, VALUE headers) {
  headers = ab_lines_fill(head, AB_SECTION_FINAL, head->call->status, headers);
  if (!head->has_date) {
    ab_lines_put(head, ab_engine_date(head->call->rack->engine), AB_DATE_FIELD_LEN);
    ab_lines_check(head);
  }
  ab_timing_put(head);
  return headers;
}

typedef struct announcement {
  ab_lines *head;
  VALUE names; /* a String of those so far */
} announcement;

/* The names of trailers that are known already (RFC 9110 6.6.2). */
static int announce(VALUE name, VALUE value, VALUE arg) {
  (void)value;
  announcement *a = (announcement *)arg;
  ab_lines *head = a->head;
  if (!RB_TYPE_P(name, T_STRING) || !ab_is_token(RSTRING_PTR(name), (size_t)RSTRING_LEN(name))) {
    head->problem = "a trailer's name is not one";
  } else if (ab_lines_forbidden_trailer(name)) {
    head->problem = "a field that no trailer section may have";
  }
  if (head->problem) {
    head->problem_object = name;
    return ST_STOP;
  }
  if (RSTRING_LEN(a->names) > 0) rb_str_cat_cstr(a->names, ", ");
  rb_str_cat(a->names, RSTRING_PTR(name), RSTRING_LEN(name));
  return ST_CONTINUE;
}

static void announce_trailers(ab_lines *head) {
  VALUE trailers = head->trailers;
  if (head->has_trailer || !RB_TYPE_P(trailers, T_HASH) || RHASH_EMPTY_P(trailers)) return;
  announcement a = {head, rb_str_new(NULL, 0)};
  rb_hash_foreach(trailers, announce, (VALUE)&a);
  if (head->problem) return;
  ab_lines_put_field(head, "Trailer", 7, RSTRING_PTR(a.names), (size_t)RSTRING_LEN(a.names));
  RB_GC_GUARD(a.names);
}

static void put_framing(ab_lines *head, uint64_t known) {
  ab_call *call = head->call;
  ab_content *content = &head->content;
  content->status = call->status;
  content->trailers = !NIL_P(head->trailers);
  content->known = known != UINT64_MAX;
  if (content->known && !content->declared) content->length = known;
  char *field = ab_lines_room(head, AB_FRAMING_MAX);
  if (AB_UNLIKELY(!field)) return;
  head->used += (size_t)(ab_exchange_put_framing(call->exchange, field, content) - field);
  call->no_content = content->none;
  call->chunked = content->chunked;
  call->has_length = content->has_length;
  if (content->has_length) call->body_left = content->length;
  if (!content->chunked) return;
  if (content->trailers) announce_trailers(head);
  if (AB_UNLIKELY(call->timing != NULL)) ab_timing_announce(head);
}

void ab_head_put_framing(ab_lines *head, uint64_t known) {
  if (AB_UNLIKELY(head->content.coded)) {
    if (head->content.declared) ab_response_refuse("Content-Length with Transfer-Encoding", Qnil);
    if (!NIL_P(head->trailers)) ab_response_refuse("abaca.trailers with Transfer-Encoding", Qnil);
    if (ab_exchange_is_stream(head->call->exchange)) { /* RFC 9113 8.2.2 */
      ab_response_refuse("Transfer-Encoding over HTTP/2", Qnil);
    }
  }
  put_framing(head, known);
  ab_lines_check(head);
}

static bool is_done(const ab_call *call) {
  return !call->body_open && ab_cancel_has_nothing(call);
}

void ab_head_queue(ab_lines *head, const char *whole, size_t len) {
  ab_call *call = head->call;
  ab_engine *engine = call->rack->engine;
  if (AB_UNLIKELY(!ab_lines_room(head, AB_HEAD_END_MAX + len))) ab_response_raise(AB_ENOMEM);
  bool last = whole && is_done(call);
  if (AB_LIKELY(last)) {
    call->complete = true;
    if (call->row) ab_sight_replies(call, len);
  }
  ab_engine_lock(engine);
  int error = ab_exchange_head(call->exchange, call->runner->scratch, head->used, &head->content,
                               whole, len);
  call->head_sent = !error;
  if (call->head_sent) ab_sight_answers(call);
  bool tell = false;
  call->complete = whole && !error;
  if (call->complete) {
    call->body_sent = len;
    call->body_left = 0;
    if (AB_LIKELY(last)) tell = ab_call_end_exchange(call);
  }
  ab_engine_unlock(engine);
  if (AB_UNLIKELY(error)) {
    if (last && error == AB_ENOMEM) ab_sight_unsent(call);
    call->quiet = false; /* it has no answer yet */
    ab_response_raise(error);
  }
  if (AB_UNLIKELY(tell)) ab_rack_tell_leader(call->rack);
}
