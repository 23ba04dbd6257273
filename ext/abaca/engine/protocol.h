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

  /* As ab_exchange_put_framing. */
  char *(*put_framing)(const ab_exchange *exchange, char *dst, ab_content *content);
  /* Writes the end of a final head, and of another one, behind its fields; returns the end. What is
   * left for the content to say is in exchange->framed. */
  char *(*end_head)(ab_exchange *exchange, char *end, const ab_content *content);
  char *(*end_interim)(ab_exchange *exchange, char *end);
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
} ab_protocol;

extern const ab_protocol ab__http1;

#endif
