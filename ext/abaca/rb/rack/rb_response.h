/* The response writer, and what its parts share (rb_response*.c, rb_interim.c, rb_hijack.c). */
#ifndef AB_RB_RESPONSE_H
#define AB_RB_RESPONSE_H

#include <string.h>

#include "rb/rack/rb_call.h"
#include "rb/rack/rb_lookup.h"

/* rb_response.c */

/* Writes the response in call->result, all of it. Raises Abaca::AppError for one that breaks
 * the Rack SPEC, Abaca::PeerError when the client has gone, and whatever the body raises. */
void ab_response_write(ab_call *call);
/* Writes a response of the server's own, if no head was sent yet. Never raises. */
void ab_response_error(ab_call *call, int status);
/* The same, and the connection is closed. */
void ab_response_last(ab_call *call, int status);
/* Calls body.close once. Raises what it raises. */
void ab_response_close_body(ab_call *call);
/* Gives memory back that a long head has taken. */
void ab__response_shrink(ab_runner *runner);
static inline void ab_response_over(ab_runner *runner) {
  if (AB_UNLIKELY(runner->scratch_capacity > AB_SCRATCH_KEEP)) ab__response_shrink(runner);
}
/* Queues content of a response whose head was queued; waits while the client is slow. */
void ab_response_content(ab_call *call, VALUE chunk);

/* Which lines are being written; each kind has fields that must not be among them. */
enum ab_section { AB_SECTION_FINAL, AB_SECTION_INTERIM, AB_SECTION_TRAILER };

/* Lines in the making, in the runner's scratch buffer, and what the app's fields say about the
 * message. Until the hand-over no Ruby code runs, so that no other fiber comes in between. */
typedef struct ab_lines {
  ab_call *call;
  size_t used;            /* bytes in the scratch buffer */
  ab_content content;     /* how it is delimited */
  VALUE hijack, protocol; /* of the keys rack.hijack and rack.protocol; Qnil */
  VALUE trailers;         /* of the key abaca.trailers; Qnil */
  const char *problem;    /* why the lines are refused */
  VALUE problem_object;
  uint8_t section; /* enum ab_section */
  bool newlines;   /* a value's lines are field lines of their own */
  bool odd;        /* the problem is one that ab_lines_fill may mend */
  bool has_date, has_trailer, has_upgrade;
  bool upgrade; /* an option of the Connection field */
} ab_lines;

/* The start of an object's inspect, for a message: it may be as long as a response, or raise, or
 * there may be none. */
VALUE ab_response_show(VALUE object);
NORETURN(void ab_response_refuse(const char *problem, VALUE object));

/* rb_response_lines.c */

/* Room for `len` more bytes, which the caller adds to `used`. Returns NULL, with a problem, when
 * memory runs out. */
char *ab__lines_grow(ab_lines *lines, size_t len);
static inline char *ab_lines_room(ab_lines *lines, size_t len) {
  const ab_runner *runner = lines->call->runner;
  size_t used = lines->used, capacity = runner->scratch_capacity;
  if (AB_UNLIKELY(used > capacity || len > capacity - used)) return ab__lines_grow(lines, len);
  return runner->scratch + used;
}
/* Appends bytes. Returns false, with a problem, when memory runs out. */
static inline bool ab_lines_put(ab_lines *lines, const char *bytes, size_t len) {
  char *dst = ab_lines_room(lines, len);
  if (AB_UNLIKELY(!dst)) return false;
  memcpy(dst, bytes, len);
  lines->used += len;
  return true;
}
/* Appends one field, which is not looked at. Something invalid becomes the lines' problem. */
void ab_lines_put_field(ab_lines *lines, const char *name, size_t name_len, const char *value,
                        size_t len);
/* Raises Abaca::AppError when the lines have a problem. */
void ab_lines_check(const ab_lines *lines);
/* A Hash, or what is like one. Raises Abaca::AppError for anything else. Runs Ruby code. */
VALUE ab_lines_hash(VALUE headers);
/* All lines of lines->call's section: a status line, unless `status` is 0, and the fields of a Hash
 * or nil. Ruby code makes Strings of the app's other objects; then lines->call is fetched again.
 * Returns the fields as they were put, for the next time. Raises Abaca::AppError. */
VALUE ab_lines_fill(ab_lines *lines, enum ab_section section, int status, VALUE headers);

/* True for a field that no trailer section may have (RFC 9110 6.5.1). `name` is a String. */
bool ab_lines_forbidden_trailer(VALUE name);

/* rb_response_head.c */

/* The final head's status line and fields. May be called again: Ruby code must not have run in
 * between the last time and the head's end. Returns the headers for the next time, which are others
 * when they had to be made plain. Raises Abaca::AppError. */
VALUE ab_head_put(ab_lines *head, VALUE headers);
/* Adds how the content is delimited; `known` is its length, or UINT64_MAX. Raises AppError. */
void ab_head_put_framing(ab_lines *head, uint64_t known);
/* Ends the head and queues it. `whole` is all of the content, which is copied behind it, and the
 * exchange is over then, unless something else is to be done before its end; NULL: the content
 * follows. Raises Abaca::PeerError. */
void ab_head_queue(ab_lines *head, const char *whole, size_t len);

/* rb_response_body.c */

/* Writes head and content for a body of any kind. Raises what ab_response_write raises. */
void ab_body_write(ab_call *call, VALUE headers, VALUE body);
/* The same for a callable that gets a stream to read from and to write to. */
void ab_body_write_call(ab_lines *head, VALUE headers, VALUE callable);
/* ab_exchange_want_room, ab_exchange_want_sent or ab_exchange_want_turn. */
typedef bool (*ab_response_pause)(ab_exchange *exchange);
/* Waits while `pending` says so, and the connection is the engine's. Returns the call: the argument
 * may be no more, if another fiber than the request's has waited. Raises PeerError, and IOError
 * when the request has ended meanwhile. */
ab_call *ab_response_wait(ab_call *call, ab_response_pause pending);
/* [locked] What the app waits for behind a piece that it has written: `full`, or the next turn,
 * when this one's share is used up; NULL: nothing. */
static inline ab_response_pause ab_response_pause_for(const ab_call *call, ab_response_pause full) {
  ab_exchange *exchange = call->exchange;
  if (full(exchange)) return full;
  if (AB_LIKELY(!ab_exchange_want_turn(exchange))) return NULL;
  return call->runner->executor->can_wait(call->runner) ? ab_exchange_want_turn : NULL;
}
/* What the writers of bodies share. Ends the head of a body whose content follows piece by piece:
 * it leaves with the first of them, or when the fiber parks before. */
void ab_body_begin(ab_lines *head);
/* [locked] A piece has been queued, and leaves at once, unless the one before has just left. */
void ab_body_soon(ab_call *call);
/* The content is complete, as far as the app is concerned. */
void ab_body_end(ab_lines *head);
/* Raises what an error of ab_exchange_write means. */
NORETURN(void ab_response_raise(int error));

/* rb_response_outbox.c: head and content of a body that is an Outbox, whose fields were put */
void ab_body_write_outbox(ab_lines *head, VALUE outbox);

/* rb_hijack.c */

/* True when the response asks for another protocol on the connection (RFC 9110 7.8). */
bool ab_upgrade_wanted(const ab_lines *head);
/* Writes 101 and hands the socket to the body. Raises what ab_response_write raises. */
void ab_upgrade_write(ab_lines *head, VALUE headers, VALUE body);
/* Exchange#call, which is rack.hijack. */
VALUE ab_call_hijack(VALUE self);

/* rb_interim.c: Exchange#inform */
VALUE ab_call_inform(VALUE self, VALUE status, VALUE headers);

#endif
