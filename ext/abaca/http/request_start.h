/* X-Request-Start: when a proxy got the request. There is no standard: seconds, perhaps with a
 * fraction, milli-, micro- or nanoseconds since 1970, perhaps behind "t=". */
#ifndef AB_HTTP_REQUEST_START_H
#define AB_HTTP_REQUEST_START_H

#include "base/base.h"

/* A request that claims to be older comes from a wrong clock. */
#define AB_REQUEST_START_MAX (300 * AB_NSEC_PER_SEC)

/* How long before `now`, in nanoseconds since 1970, the field says that the request came. 0 for an
 * invalid time, one in the future, and one more than AB_REQUEST_START_MAX ago. */
ab_nsec ab_request_start_age(const char *value, size_t len, ab_nsec now);

#endif
