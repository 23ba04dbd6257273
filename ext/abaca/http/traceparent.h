/* traceparent: the trace that a request belongs to, and the span of whoever sent it (W3C Trace
 * Context 3.2). */
#ifndef AB_HTTP_TRACEPARENT_H
#define AB_HTTP_TRACEPARENT_H

#include "base/base.h"

typedef struct ab_traceparent {
  uint8_t trace[16], span[8];
  bool sampled; /* its sender may have kept it */
} ab_traceparent;

/* False, with *parent undefined, for what is none. */
bool ab_traceparent_parse(ab_view value, ab_traceparent *parent) AB_WARN_UNUSED;

#endif
