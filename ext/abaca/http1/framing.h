/* How long a request's body is, and what becomes of the connection afterwards (RFC 9112 6.3, 9.3):
 * the one place that decides it. */
#ifndef AB_HTTP1_FRAMING_H
#define AB_HTTP1_FRAMING_H

#include "base/base.h"
#include "http/request.h"

struct ab_head;

enum ab_body_kind { AB_BODY_NONE, AB_BODY_LENGTH, AB_BODY_CHUNKED };

typedef struct ab_framing {
  uint64_t length;      /* of an AB_BODY_LENGTH body; > 0 */
  uint8_t body;         /* enum ab_body_kind; Content-Length: 0 is AB_BODY_NONE */
  bool has_length;      /* a Content-Length field was there, 0 included */
  bool keep_alive;      /* the peer wants the connection kept (RFC 9112 9.3) */
  bool expect_continue; /* HTTP/1.1 with Expect: 100-continue and a body (RFC 9110 10.1.1) */
} ab_framing;

/* Decides from the parsed fields; fills head->framing and request.upgrade. Returns AB_OK or a
 * negative enum ab_http_error. Called by ab_head_parse. */
int ab_framing_decide(struct ab_head *head) AB_WARN_UNUSED;

#endif
