/* The watch: the thread that called run. It runs no request, and sleeps without the GVL. When no
 * thread waits for work it has the lead, but takes no requests: it starts a thread for them, as
 * long as there may be more. When there may not, it does not use the lead, and the first thread
 * that is done takes it up with the next request: where all threads wait most of the time none is
 * woken for a request but by what it has waited for.
 */
#ifndef AB_RB_LEAD_WATCH_H
#define AB_RB_LEAD_WATCH_H

#include "rb/run/rb_thread_pool.h"

/* Serves on the threads alone, until the server is done. The calling thread keeps watch. Raises
 * what a request has raised for the process, what a trap handler of this thread raises,
 * ThreadError. */
void ab_lead_watch_run(ab_thread_pool *pool);

/* The server is done: ends the run. */
void ab__lead_watch_end(ab_thread_pool *pool);

#endif
