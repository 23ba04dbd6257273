/* Guest mode: the server on fibers of a foreign scheduler.
 *
 * The foreign scheduler owns the thread. The engine has a poller of its own, whose descriptor is
 * itself pollable: one fiber waits for it through the foreign scheduler and then runs a turn of the
 * engine. Requests run on fibers that Fiber.schedule has made and that are used again; between two
 * requests such a fiber is scrubbed and waits in the scheduler's `block`. Only hooks that every
 * scheduler must have are relied on. */
#ifndef AB_RB_GUEST_H
#define AB_RB_GUEST_H

#include "rb/run/rb_run.h"

typedef struct ab_guest ab_guest;

extern const ab_executor ab_executor_guest;

/* For the run, which owns the result. At most `max` requests at a
 * time. Raises when memory or descriptors run out. */
ab_guest *ab_guest_init(ab_run *run, VALUE scheduler, size_t max);
/* NULL is allowed. Fibers that are left must never run again. */
void ab_guest_fini(ab_guest *guest);
void ab_guest_mark(const ab_guest *guest);
ab_poller *ab_guest_poller(const ab_guest *guest);

/* Turns the engine on the current fiber until the client has done, or until a request's fiber has
 * raised something for the process, which is raised here. */
void ab_guest_run(ab_guest *guest, const ab_loop_client *client, void *ctx);
/* Lets idle fibers end, closes the poller. Busy ones end after their request. */
void ab_guest_end(ab_guest *guest);

#endif
