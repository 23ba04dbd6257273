/* A request body on its way: its framing, how much has come, by when more has to. Content goes from
 * the socket to the reader; only the trailer section is kept. */
#ifndef AB_ENGINE_BODY_H
#define AB_ENGINE_BODY_H

#include "base/limits.h"
#include "base/mem.h"
#include "http1/chunk.h"
#include "http1/framing.h"
#include "page/figures.h"

typedef struct ab_body {
  const ab_mem *mem;
  ab_body_store *store;     /* where it counts; NULL: it is not buffered */
  ab_figures *const *shown; /* ... and where that is only shown */
  ab_nsec buffered_for;     /* how long it took */
  uint32_t buffered;        /* its bytes that came meanwhile, framing included */
  bool buffering, whole;    /* it goes on; its end was among them */
  bool asked;               /* the peer was told to send it */
  uint64_t size;            /* bytes of content so far, framing removed */
  uint64_t left;            /* bytes to come, for a body with Content-Length */
  ab_nsec waiting;          /* since when bytes are awaited; 0: they are not */
  ab_nsec waited;           /* how long they were awaited before */
  char *trailers;           /* field lines of the trailer section, see http/trailer.h */
  uint32_t trailers_len, trailers_capacity;
  ab_chunk_decoder chunks;
  int32_t error; /* a negative enum ab_http_error after which nothing more can be decoded */
  bool chunked;
  bool done;    /* the body has ended, trailers included */
  bool open;    /* ab_body_ends_after follows */
  bool endless; /* ... and says how long it is */
} ab_body;

/* Prepares for the body that `framing` announces, which must not be AB_BODY_NONE. Returns AB_OK,
 * AB_HTTP_BODY_TOO_LARGE before anything was read, or AB_HTTP_NO_MEMORY. */
int ab_body_init(ab_body **body, const ab_mem *mem, const ab_limits *limits,
                 const ab_framing *framing) AB_WARN_UNUSED;
/* NULL is allowed. */
void ab_body_fini(ab_body *body);

/* Decodes buf[0 .. len - 1] and copies at most `room` bytes of content to `out`; NULL throws them
 * away. *used: bytes used up, all unless there was no room or body->done. Returns the bytes of
 * content; 0 for none; body->error when no content comes before it. */
int64_t ab_body_decode(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                       size_t *used, char *out, size_t room) AB_WARN_UNUSED;

/* The body is buffered: it counts in `store`, which is shown in what `shown` points to at each
 * moment. */
void ab_body_buffer(ab_body *body, ab_body_store *store, ab_figures *const *shown);
/* Searches bytes that the caller keeps: adds the body's to ->buffered, sets ->done and ->error. */
void ab_body_look_over(ab_body *body, const ab_limits *limits, const char *buf, size_t len);
/* That was all: a reader now gets the body from its first byte on. */
void ab_body_buffered(ab_body *body);

/* Nothing of it is kept any more: it no longer counts. */
void ab_body_used_up(ab_body *body);

/* Bytes of content that come next without framing in between: they may be received directly. */
uint64_t ab_body_direct(const ab_body *body);
/* `len` of them were. */
void ab_body_received(ab_body *body, uint64_t len);

/* True when the rest of the body ends within buf[0 .. len - 1], or there is no rest. */
bool ab_body_ends_within(const ab_body *body, const ab_limits *limits, const char *buf, size_t len);

/* HTTP/2: the body's end, and its trailers, come by themselves; if no length is declared, it counts
 * as endless until then. */
void ab_body_leave_open(ab_body *body, bool declared);
/* Its end has come, behind `rest` more bytes. */
void ab_body_ends_after(ab_body *body, uint64_t rest);
/* Keeps field lines of its trailer section. Returns AB_OK or a negative enum ab_http_error. */
int ab_body_keep_trailers(ab_body *body, const char *bytes, uint32_t len);

/* Waiting for bytes begins, unless it has already; it ends. */
void ab_body_wait(ab_body *body, ab_nsec now);
void ab_body_waited(ab_body *body, ab_nsec now);
/* The time by which awaited bytes must have come: after body_timeout, or when min_body_rate is no
 * longer met. Time without waiting does not count. */
ab_nsec ab_body_deadline(const ab_body *body, const ab_limits *limits);

#endif
