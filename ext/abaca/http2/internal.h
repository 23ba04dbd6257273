/* What a session is made of; only for this folder and its tests. */
#ifndef AB_HTTP2_INTERNAL_H
#define AB_HTTP2_INTERNAL_H

#ifdef AB_HAVE_HTTP2

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "http2/block.h"
#include "http2/guard.h"
#include "http2/session.h"

/* What RFC 9113 gives a stream before anybody says otherwise (6.5.2). */
#define AB__H2_WINDOW 65535
/* Frames of ours that wait to be sent, but for DATA. */
#define AB__H2_QUEUE_MAX 1000
/* A block of fields in more frames than these is an attack (CVE-2024-28182). */
#define AB__H2_CONTINUATIONS_MAX 8
/* A header list this many times as long as announced ends the connection. */
#define AB__H2_HEAD_EXCESS 4

struct ab_h2_stream {
  ab_list node; /* of the session's streams */
  ab_h2 *h2;
  void *app;
  char *trailers; /* of the request */
  size_t trailers_len;
  char *response_trailers;
  size_t response_trailers_len;
  uint64_t unread; /* bytes of content that were not consumed */
  int32_t id;
  bool told;    /* `request` was called */
  bool refused; /* with an error */
  bool is_head;
  bool ended;       /* the peer has ended its side */
  bool responded;   /* a final head was submitted */
  bool complete;    /* our side has ended */
  bool reset_after; /* AB_H2_NO_ERROR, once it is complete */
  bool reset;       /* given up by us */
};

struct ab_h2 {
  nghttp2_session *session;
  const ab_mem *mem;
  const ab_limits *limits;
  const ab_methods *methods;
  ab_h2_calls calls;
  void *ctx;
  ab_list streams;
  ab_list blocks; /* of memory that the library has */
  uint64_t requests;
  uint64_t frames;          /* that have come, the current one included */
  uint32_t open;            /* streams that were told and not closed */
  int32_t last_id;          /* of the peer's streams */
  int32_t gap_from, gap_to; /* streams below it that it has left out last */
  uint32_t continuations;   /* frames of the current block behind its first */
  ab_outbox *out;           /* during ab_h2_fill, */
  uint64_t most;            /* and its limit */
  uint32_t break_code;      /* why the session ends, once the library has returned */
  ab__h2_block block;       /* the one that comes */
  ab__h2_guard guard;
  bool greeted;   /* the peer's preface is complete */
  bool in_block;  /* fields of `block` are expected */
  bool continued; /* a CONTINUATION is expected */
  bool paused;    /* the library has returned early from sending */
  bool receiving; /* during ab_h2_receive */
  bool ending;    /* the last stream is to be told */
  bool broken;    /* ends with an error */
  bool lost;      /* no memory: the library must not be called any more */
};

static inline ab_h2_stream *ab__h2_find(ab_h2 *h2, int32_t id) {
  return nghttp2_session_get_stream_user_data(h2->session, id);
}

/* Makes the stream of a request; NULL without memory. */
ab_h2_stream *ab__h2_stream_init(ab_h2 *h2, int32_t id);
/* Tells that it is closed, and frees it. */
void ab__h2_stream_fini(ab_h2_stream *stream);
/* The request of the block that has come, and its trailers. */
void ab__h2_take_request(ab_h2_stream *stream);
void ab__h2_take_trailers(ab_h2_stream *stream);
/* The provider of a response's content, and what puts it into the outbox. */
ssize_t ab__h2_offer(nghttp2_session *session, int32_t id, uint8_t *buf, size_t most,
                     uint32_t *flags, nghttp2_data_source *source, void *user);
int ab__h2_put(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
               nghttp2_data_source *source, void *user);
/* Our side has ended: what waited for it happens. */
void ab__h2_complete(ab_h2_stream *stream);

/* The library's callbacks; NULL without memory. */
nghttp2_session_callbacks *ab__h2_callbacks_init(void);

#endif
#endif
