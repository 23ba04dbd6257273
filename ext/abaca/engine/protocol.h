/* What is spoken on a connection: input becomes exchanges, responses become bytes. All is called
 * with the lock held, but put_framing. */
#ifndef AB_ENGINE_PROTOCOL_H
#define AB_ENGINE_PROTOCOL_H

#include "engine/exchange.h"

typedef struct ab_protocol {
  /* Does one step with what has come, while the connection waits for a request or has an exchange.
   * Returns whether another step may get further at once. */
  bool (*advance)(ab_conn *conn);
  /* The engine drains: an idle connection goes. */
  void (*drain)(ab_conn *conn);
  /* The engine refuses what has not come to the application. */
  void (*refuse)(ab_conn *conn);
  /* The request that waits, again in its parsed form; NULL: not before the next step. */
  const ab_request *(*recall)(ab_exchange *exchange);

  /* As ab_exchange_put_framing. */
  char *(*put_framing)(const ab_exchange *exchange, char *dst, ab_content *content);
  /* As ab_exchange_head, ab_exchange_inform and ab_exchange_switch. What is left for the content to
   * say is in exchange->framed. */
  int (*head)(ab_exchange *exchange, char *text, size_t len, const ab_content *content,
              const char *whole, size_t count);
  int (*inform)(ab_exchange *exchange, char *text, size_t len);
  int (*switch_to)(ab_exchange *exchange, char *text, size_t len);
  /* Queues "100 Continue". Returns as ab__conn_writable, as does the next. */
  int (*write_continue)(ab_conn *conn);
  /* Queues a response of our own, and sets *content to the bytes of its content. */
  int (*write_error)(ab_conn *conn, int status, enum ab_write_connection connection,
                     bool answers_head, size_t *content);
  /* As ab_exchange_answer_error. */
  int (*answer_error)(ab_exchange *exchange, int status, size_t *content);

  /* Of content that is framed: queues what stands before `len` bytes, in this many slices, and
   * after them. There is an outbox. */
  int (*begin_piece)(ab_exchange *exchange, uint64_t len, uint32_t slices);
  int (*end_piece)(ab_exchange *exchange);
  /* Sends a piece at once, as ab_exchange_send. */
  int (*send_piece)(ab_exchange *exchange, const char *ptr, size_t len);
  /* Queues the end, with field lines of a trailer section. */
  int (*end_content)(ab_exchange *exchange, const char *trailers, size_t len);
  /* The response has ended, while there is a connection: the exchange is over, now or when the rest
   * of the request's body has come. */
  void (*finish)(ab_exchange *exchange, enum ab_finish how);
  /* The response breaks off; the application has the exchange until ab_exchange_finish. */
  void (*abort)(ab_exchange *exchange, enum ab_finish how);

  /* --- what is another protocol's than HTTP/1's: NULL there, and where nothing is to be done ---
   */

  /* The connection speaks this from here on, as TLS has settled. False without memory. */
  bool (*begin)(ab_conn *conn);
  /* The first bytes are here: does it begin with this protocol? Returns as advance. */
  bool (*choose)(ab_conn *conn);
  /* Passes the connection's output on, in place of ab__conn_flush. */
  void (*flush)(ab_conn *conn);
  /* What is passed on waits for a disk, and not for the peer. */
  bool (*stands)(const ab_conn *conn);
  /* So much of a request's body was used up. */
  void (*consumed)(ab_conn *conn, size_t len);
  /* The connection, which waits for requests, gets its deadline; that has passed. */
  void (*rearm)(ab_conn *conn);
  void (*timeout)(ab_conn *conn);
  /* It closes once all is sent. Returns whether the protocol sees to that. */
  bool (*close)(ab_conn *conn);
  /* It is dead; its structure is freed. */
  void (*dropped)(ab_conn *conn);
  void (*freed)(ab_conn *conn);
} ab_protocol;

extern const ab_protocol ab__http1;
extern const ab_protocol ab__http2;        /* of a connection with a session (http2_session.c) */
extern const ab_protocol ab__http2_stream; /* of a stream on one (http2_stream.c) */
extern const ab_protocol ab__handshake;    /* of one that begins with TLS (handshake.c) */
extern const ab_protocol ab__tunnel;       /* of one that the application has (tunnel.c) */

#endif
