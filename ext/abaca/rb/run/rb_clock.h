/* The clock of a request: what its row shows and what is measured of it, where it runs. */
#ifndef AB_RB_CLOCK_H
#define AB_RB_CLOCK_H

#include "rb/run/rb_run.h"

/* A call with a row or a measured route begins, where no loop runs it, and is over. */
void ab_clock_begin(ab_call *call, ab_nsec now);
void ab_clock_end(ab_call *call, ab_nsec now);
/* See ab_call_hooks. */
void ab_clock_settle(ab_call *call, ab_nsec now);

/* --- the threads that run requests --- */

/* The calling thread runs requests of the driver: its loop, if that has one, or itself. */
void ab_clock_attach(ab_driver *driver);
void ab_clock_detach(ab_driver *driver);

/* --- rb_clock_events.c: what Ruby tells of threads (3.2) --- */

/* Raises NoMemoryError. */
void ab_clock_listen(ab_run *run);
void ab_clock_hush(ab_run *run);
/* The run is freed, at the end of the process: Ruby may tell something yet. */
void ab_clock_forget(ab_run *run);
/* The calling thread runs requests of the driver; NULL: no longer. */
void ab__clock_set_thread(const ab_run *run, ab_driver *driver);

/* --- rb_waiting.c: Engine.waiting --- */

/* The holder of a request that no loop knows: what the current thread, or the current fiber, runs
 * stands in *place. Raises NoMemoryError. */
void ab_waiting_on_thread(ab_call **place);
void ab_waiting_on_fiber(ab_call **place);
/* It is no longer to be looked at. On the same thread or fiber. */
void ab_waiting_off_thread(void);
void ab_waiting_off_fiber(void);

/* The request that runs here, unless a loop knows it; NULL: none. */
ab_call *ab_waiting_call_here(void);

void ab_init_waiting(VALUE cEngine);

/* --- rb_tracing.c: Engine.request_times, Engine.trace --- */
void ab_init_tracing(VALUE cEngine);

#endif
