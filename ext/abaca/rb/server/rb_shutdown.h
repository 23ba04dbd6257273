/* The end of a server, in stages: see rb_shutdown.c. */
#ifndef AB_RB_SHUTDOWN_H
#define AB_RB_SHUTDOWN_H

#include "rb/server/rb_server.h"

extern const ab_run_stages ab_shutdown_stages;

/* Takes shutdown_timeout, shutdown_delay, idle_timeout, readiness and liveness of the options. */
void ab_shutdown_configure(ab_server *server, VALUE options);
void ab_shutdown_begin(ab_server *server, ab_nsec now);
/* Nothing is left to serve; and nothing is waited for any more. */
bool ab_shutdown_done(void *server);
bool ab_shutdown_given_up(void *server);
/* After an exception that concerns the process has ended the run: turns the engine once more, by
 * `run_on`, which gets the server, to break off what is left as halt does. */
void ab_shutdown_hasten(ab_server *server, VALUE (*run_on)(VALUE));
/* Answers 503 to every request that is left, as the run ends without having waited for it. */
void ab_shutdown_break_off(ab_server *server);

#endif
