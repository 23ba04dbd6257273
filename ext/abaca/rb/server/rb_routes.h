/* Routes: which requests run on threads and which on fibers, by the path as it stands in the
 * request. */
#ifndef AB_RB_ROUTES_H
#define AB_RB_ROUTES_H

#include <ruby.h>

#include "http1/pattern.h"

typedef struct ab_routes {
  ab_path_rule *rules; /* the value is an enum ab_mode */
  size_t count;
} ab_routes;

/* `list` is an Array of [true for a thread, pattern], in the order in which they count; Qnil is an
 * empty one. Raises NoMemoryError, TypeError. */
void ab_routes_init(ab_routes *routes, VALUE list);
void ab_routes_fini(ab_routes *routes);

#endif
