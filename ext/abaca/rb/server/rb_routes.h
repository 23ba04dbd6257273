/* Routes: which requests run on threads, which on fibers, and which where they do better, by the
 * path as it stands in the request. */
#ifndef AB_RB_ROUTES_H
#define AB_RB_ROUTES_H

#include <ruby.h>

#include "http1/pattern.h"
#include "rb/server/rb_stats.h"

typedef struct ab_routes {
  ab_path_rule *rules; /* the value is an enum ab_mode */
  size_t count;
} ab_routes;

/* :hybrid and :thread, everything else is fibers. */
enum ab_mode ab_mode_of(VALUE name);

/* `list` is an Array of [:thread, :fiber or :hybrid, pattern], in the order in which they count;
 * Qnil is an empty one. Raises NoMemoryError, TypeError. */
void ab_routes_init(ab_routes *routes, VALUE list);
void ab_routes_fini(ab_routes *routes);

#endif
