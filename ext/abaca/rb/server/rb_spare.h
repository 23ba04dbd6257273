/* The crew of a server: its spare loops (rb_spare.c), which take the lead while home is kept by a
 * fiber. Everything here needs the GVL, except what says otherwise. */
#ifndef AB_RB_SPARE_H
#define AB_RB_SPARE_H

#include "rb/server/rb_server.h"

/* The crew of a new server: nobody. */
void ab_crew_init(ab_crew *crew);
void ab_crew_mark(const ab_crew *crew);
/* Frees the spares. Their fibers may be gone, but not run any more. */
void ab_crew_fini(ab_crew *crew);

/* What comes of a call for a spare. */
enum ab_call {
  AB_CALL_HEARD,  /* one is on its way */
  AB_CALL_MAKING, /* who has the GVL has to call ab_crew_make, or to let the new thread run */
  AB_CALL_IN_VAIN /* all are kept: it is up to those that run now */
};
/* Has a spare claim the lead. The standby's. */
enum ab_call ab_crew_call(ab_server *server);
/* Makes ready to call for spares, and what is left to do when nobody calls any more. */
void ab_crew_begin(ab_server *server);
void ab_crew_part(ab_server *server);
/* Has a thread made even if all that are kept wait outside of Ruby. The standby's. */
void ab_crew_rouse(ab_server *server);
/* True when a spare is on its way, and does not run on this thread. */
bool ab_crew_is_making(const ab_server *server);
/* Makes the thread of a spare if one is wanted. Never raises, and runs no Ruby code here. */
void ab_crew_make(ab_server *server);
/* Calls fn for home and for each spare. */
void ab_crew_each(ab_server *server, void (*fn)(ab_runner *runner));
/* Fibers that have a request, in all pools. */
size_t ab_crew_busy(const ab_server *server);
/* True when a loop other than the runner's is kept by a fiber. */
bool ab_crew_competes(const ab_server *server, const ab_runner *runner);
/* True when no fiber is left on a spare. */
bool ab_crew_quiet(const ab_server *server);
/* Raises the exception in every fiber of theirs that waits. */
void ab_crew_interrupt_others(ab_server *server, VALUE exception);
/* Raises what ended a spare and concerns the process; on home. */
void ab_crew_raise(ab_server *server);
/* Ends the spares and waits for their threads; with `abandon` without their fibers. Returns 0, or
 * the state of what was raised meanwhile, with rb_errinfo set. */
int ab_crew_end(ab_server *server, bool abandon);
void ab_init_spare(VALUE cEngine);

#endif
