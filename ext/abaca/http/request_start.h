/* X-Request-Start: when a proxy in front of us got the request. There is no standard; proxies send
 * the time in seconds, with or without a fraction, in milliseconds, microseconds or nanoseconds
 * since 1970, and "t=" before it. */
#ifndef AB_HTTP_REQUEST_START_H
#define AB_HTTP_REQUEST_START_H

#include "base/base.h"

/* A request that claims to be older comes from a wrong clock. */
#define AB_REQUEST_START_MAX (300 * AB_NSEC_PER_SEC)

/* How long before `now`, in nanoseconds since 1970, the field says that the request came. 0 for an
 * invalid or impossible time: in the future, where clocks that differ a little put it, or more than
 * AB_REQUEST_START_MAX ago. */
ab_nsec ab_request_start_age(const char *value, size_t len, ab_nsec now);

#endif
