/* The watch over the lead. The thread that called run keeps it, and runs no request: in short
 * sleeps, without the GVL, it sees to it that the lead passes from a request that takes long to a
 * thread that waits for work. When none does it leads itself, but takes no requests: it starts a
 * thread for them, as long as there may be more. When there may not, it only keeps the lead for a
 * moment, and the first thread that is done takes it up with the next request: where all threads
 * wait most of the time none is woken for a request but by what it has waited for.
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
