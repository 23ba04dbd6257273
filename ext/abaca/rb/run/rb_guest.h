/* Guest mode: the server on fibers of a foreign scheduler, which owns the thread. One fiber waits
 * for the descriptor of the engine's own poller, and turns the engine. Requests run on fibers that
 * Fiber.schedule made; between two such a fiber is scrubbed and waits in the scheduler's `block`.
 * Only hooks that every scheduler must have are relied on. */
#ifndef AB_RB_GUEST_H
#define AB_RB_GUEST_H

#include "rb/run/rb_run.h"

typedef struct ab_guest ab_guest;

extern const ab_executor ab_executor_guest;

/* Owned by the run. At most `max` requests at a time. Raises without memory or descriptors. */
ab_guest *ab_guest_init(ab_run *run, VALUE scheduler, size_t max);
/* NULL is allowed. Fibers that are left must never run again. */
void ab_guest_fini(ab_guest *guest);
void ab_guest_mark(const ab_guest *guest);
ab_poller *ab_guest_poller(const ab_guest *guest);

/* Turns the engine on this fiber until the client is done. Raises what concerns the process. */
void ab_guest_run(ab_guest *guest, const ab_loop_client *client, void *ctx);
/* Lets idle fibers end, closes the poller. Busy ones end after their request. */
void ab_guest_end(ab_guest *guest);

#endif
