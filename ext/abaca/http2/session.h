/* HTTP/2 on one connection: bytes to requests on streams, responses to bytes (RFC 9113, RFC 7541).
 * Stands on libnghttp2, which no other room knows. No input or output, no clock (time is an
 * argument), no Ruby. One thread at a time.
 *
 * A stream lives from its request's head until `closed` was called for it. The callbacks run within
 * ab_h2_receive and ab_h2_fill; they may call what is marked [any time], but neither of these. */
#ifndef AB_HTTP2_SESSION_H
#define AB_HTTP2_SESSION_H

#include "base/limits.h"
#include "base/mem.h"
#include "http/methods.h"
#include "http/request.h"
#include "outbox/outbox.h"

typedef struct ab_h2 ab_h2;
typedef struct ab_h2_stream ab_h2_stream;

/* A function that returns an int and says no more of it returns AB_OK, or AB_ENOMEM. Where the
 * library had no memory, the session is lost: it is over, and gives nothing more. */

/* The head of a request, and all that it points to, in one piece of memory. */
typedef struct ab_h2_head {
  ab_request request; /* first: its address is the piece's */
  ab_view scheme;     /* as the peer says */
  uint64_t length;    /* that it declares; UINT64_MAX: none */
  bool expects_continue;
} ab_h2_head;

typedef struct ab_h2_calls {
  /* A request begins. Takes the head, memory of the session's `mem`. `error`: AB_OK, or the
   * negative enum ab_http_error that it is to be answered with; then the head is NULL, and neither
   * `data` nor `end` follows. `ended`: it has no body. */
  void (*request)(void *ctx, ab_h2_stream *stream, ab_h2_head *head, int error, bool ended);
  /* Content of its body, borrowed during the call. Counts against the windows until
   * ab_h2_consume. */
  void (*data)(void *ctx, ab_h2_stream *stream, const char *ptr, size_t len);
  /* The request has ended; perhaps there are trailers. */
  void (*end)(void *ctx, ab_h2_stream *stream);
  /* The stream is over: complete, or reset by either side, or lost with the session. It is freed
   * afterwards, and nothing [any time] may be called for it any more. Called once for each whose
   * `request` was called, by ab_h2_fini at the latest. */
  void (*closed)(void *ctx, ab_h2_stream *stream);
  /* How many bytes of the response's content, at most `most`, can go now; 0: none before
   * ab_h2_resume. *last: the content ends behind them. */
  size_t (*available)(void *ctx, ab_h2_stream *stream, size_t most, bool *last);
  /* Appends `len` of them to `out`, not more than `available` just said. Returns AB_OK or
   * AB_ENOMEM, which ends the session. */
  int (*take)(void *ctx, ab_h2_stream *stream, ab_outbox *out, size_t len);
} ab_h2_calls;

/* A session of a server. Borrows limits and methods (NULL: the registry's); `calls` get ctx. Its
 * SETTINGS are the first that ab_h2_fill gives. NULL without memory. */
ab_h2 *ab_h2_init(const ab_mem *mem, const ab_limits *limits, const ab_methods *methods,
                  const ab_h2_calls *calls, void *ctx);
/* Closes all streams. NULL is allowed. */
void ab_h2_fini(ab_h2 *h2);
/* Whether the library was found when this was compiled, and its name and version, or NULL. */
const char *ab_h2_library(void);

/* Takes all of the bytes. Returns AB_OK; or AB_EPEER: nothing more may be received, what explains
 * it (GOAWAY) is to be sent, and the connection closed. Not to be called while the outbox is full,
 * or what answers the peer's frames has no bound. */
int ab_h2_receive(ab_h2 *h2, const char *ptr, size_t len, ab_nsec now) AB_WARN_UNUSED;
/* Appends frames to `out` until `most` bytes are pending there or nothing is left to say. AB_OK, or
 * AB_ENOMEM: the session is lost. */
int ab_h2_fill(ab_h2 *h2, ab_outbox *out, uint64_t most) AB_WARN_UNUSED;
/* True if ab_h2_fill would give something. */
bool ab_h2_owes(const ab_h2 *h2);
/* True when the session is over, once what ab_h2_fill gave is sent. */
bool ab_h2_is_over(const ab_h2 *h2);
/* Streams whose `request` was called, and `closed` not yet. */
uint32_t ab_h2_streams(const ab_h2 *h2);
/* How often `request` was called. */
uint64_t ab_h2_requests(const ab_h2 *h2);
/* How many frames have come, the one that is coming included. */
uint64_t ab_h2_frames(const ab_h2 *h2);
/* The peer is in the middle of something that must come to its end in header_timeout: its preface,
 * or a block of fields. */
bool ab_h2_is_amid(const ab_h2 *h2);

/* Drain [any time]: the notice (GOAWAY with 2^31-1), and a while later the last stream that counts;
 * from then on it is over when no stream is left. */
int ab_h2_warn_of_end(ab_h2 *h2);
int ab_h2_end_session(ab_h2 *h2);
/* At once, for this reason (RFC 9113 7) [any time]. */
int ab_h2_break(ab_h2 *h2, uint32_t code);

/* --- a stream: all [any time] while it is not closed --- */

void ab_h2_stream_set_app(ab_h2_stream *stream, void *app);
void *ab_h2_stream_app(const ab_h2_stream *stream);
int32_t ab_h2_stream_id(const ab_h2_stream *stream);
/* The method is HEAD, also after an error: the answer has no content. */
bool ab_h2_stream_is_head(const ab_h2_stream *stream);
/* Trailers, once the request has ended, as field lines "name: value\r\n"; len 0: none. */
ab_view ab_h2_stream_trailers(const ab_h2_stream *stream);
/* The peer has ended its side. */
bool ab_h2_stream_has_ended(const ab_h2_stream *stream);
/* ... and has been sent the whole response. */
bool ab_h2_stream_is_complete(const ab_h2_stream *stream);

/* `len` bytes of its body were used up: the peer may send as many more. */
void ab_h2_consume(ab_h2_stream *stream, size_t len);
/* The body is read: from now on the window is wider. */
void ab_h2_widen(ab_h2_stream *stream);

/* Interim and final heads, as field lines "name: value\r\n" that are valid in HTTP/1; names become
 * lower case, fields of the connection are left out. `content`: content follows, for which
 * `available` is asked; otherwise the stream's side ends with the head. */
int ab_h2_inform(ab_h2_stream *stream, int status, const char *lines, size_t len) AB_WARN_UNUSED;
int ab_h2_respond(ab_h2_stream *stream, int status, const char *lines, size_t len,
                  bool content) AB_WARN_UNUSED;
/* Trailers, before `available` says which content is the last; for a response with content. */
int ab_h2_set_trailers(ab_h2_stream *stream, const char *lines, size_t len) AB_WARN_UNUSED;
/* `available` has something again, or knows the end. */
void ab_h2_resume(ab_h2_stream *stream);
/* Gives the stream up, for this reason (RFC 9113 7); what was not sent of it is dropped. `closed`
 * follows, at the latest in the next ab_h2_fill that has room. With AB_H2_NO_ERROR, a response that
 * was begun is sent whole first: its client has to send no more (RFC 9113 8.1). */
void ab_h2_reset(ab_h2_stream *stream, uint32_t code);

enum ab_h2_code {
  AB_H2_NO_ERROR = 0x0,
  AB_H2_PROTOCOL_ERROR = 0x1,
  AB_H2_INTERNAL_ERROR = 0x2,
  AB_H2_FLOW_CONTROL_ERROR = 0x3,
  AB_H2_STREAM_CLOSED = 0x5,
  AB_H2_REFUSED_STREAM = 0x7,
  AB_H2_CANCEL = 0x8,
  AB_H2_ENHANCE_YOUR_CALM = 0xb,
  AB_H2_HTTP_1_1_REQUIRED = 0xd
};

#endif
