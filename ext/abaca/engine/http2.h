/* HTTP/2 on a connection. Internal to engine/.
 *
 * A connection that speaks HTTP/2 has a session and no exchange: it stays in state HEAD until it
 * closes. Each stream is a connection of its own, without a socket, with one exchange: so all that
 * holds for a request, its body, its deadlines and its output holds for a stream as well.
 *
 *   socket -> connection -> session (http2/session.h) -> stream's connection -> exchange
 *   socket <- its outbox <- session <- the stream's outbox <- exchange
 *
 * What a stream has to say stands in its outbox, until the session has a place for it; frames stand
 * in the socket's. At most AB_SESSION_OUTPUT bytes of them, so that what is urgent passes the rest.
 *
 * Strings and files pass from one outbox to the other by reference. A frame whose head is there has
 * to be completed, whatever becomes of its stream: a file that is cut off then ends the connection.
 */
#ifndef AB_ENGINE_HTTP2_H
#define AB_ENGINE_HTTP2_H

#include "engine/conn.h"
#include "http2/session.h"

/* Bytes of frames that wait for the socket: more, and a reset or an urgent stream would come late.
 */
#define AB_SESSION_OUTPUT 65536

struct ab_session {
  ab_conn *conn; /* NULL once it is gone: its streams' structures may still refer to this */
  ab_h2 *h2;
  ab_list pending; /* in engine->sessions: there may be frames to send when the step ends */
  ab_list writers; /* ab_stream: those with output */
  uint64_t fills;  /* how often frames were taken from the session */
  uint32_t live;   /* structures of streams, those of reset ones that the application has too */
  uint32_t holds;  /* it is in use on the stack */
  ab_nsec retires; /* when the peer is told that the connection ends, for its age; 0: never */
  ab_nsec ends;    /* it was told: when the streams that still count are counted; 0: it was not */
  uint8_t waits;   /* enum session_wait: what its deadline is for */
  bool busy;       /* the session's callbacks run */
  bool warned;     /* the peer was told that the connection ends */
};

struct ab_stream {
  ab_session *session;
  ab_h2_stream *h2; /* NULL once it is over */
  ab_conn *conn;
  ab_list link;      /* in session->writers */
  uint64_t taken;    /* bytes of output that the session took since it was last looked at */
  uint64_t received; /* bytes of the request's body */
  uint64_t fill;     /* session->fills when this was found out: */
  size_t sound;      /* bytes of the file at the front of its output that can be sent */
  size_t unread;     /* of these, what was not used up and counts against the window */
  uint32_t code;     /* the reason to be given when it is dropped (RFC 9113 7) */
  bool headed;       /* the final head was given to the session */
  bool ended;        /* the response is whole: it ends behind the output */
  bool wide;         /* the application reads it: the window is wider */
};

/* http2_session.c */

/* There may be frames to send: at once, or when the step ends. */
void ab__session_soon(ab_session *session);
/* At the end of a step: sends what the sessions have. */
void ab__sessions_send(ab_engine *engine);
/* A stream's structure is not used any more. */
void ab__session_release_stream(ab_session *session, const ab_mem *mem);

/* http2_stream.c */

extern const ab_h2_calls ab__stream_calls; /* get the session */

/* The session has taken output of the stream, or none although there is some. */
void ab__stream_settle_output(ab_stream *stream);

#endif
