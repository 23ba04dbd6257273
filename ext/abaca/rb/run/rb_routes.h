/* Routes: what a request runs on (threads, fibers, whichever does better), by its raw path. */
#ifndef AB_RB_ROUTES_H
#define AB_RB_ROUTES_H

#include "rb/run/rb_run.h"

/* :hybrid and :thread, everything else is fibers. */
enum ab_mode ab_mode_of(VALUE name);

/* `list` is an Array of [:thread, :fiber or :hybrid, pattern], in the order in which they count;
 * Qnil is an empty one. Raises NoMemoryError, TypeError. */
void ab_routes_init(ab_routes *routes, VALUE list);
void ab_routes_fini(ab_routes *routes);

/* The mode for a raw path without its query, and the rule, or NULL. Without the GVL too. */
enum ab_mode ab_routes_mode(const ab_run *run, ab_view path, const ab_path_rule **rule);
/* Has requests wait for their bodies, as the options say. Raises as ab_routes_init. */
void ab_routes_buffer_bodies(ab_run *run, VALUE options);

#endif
