/* The spare loops of a run (rb_spare.c). All of this needs the GVL unless it says otherwise. */
#ifndef AB_RB_SPARE_H
#define AB_RB_SPARE_H

#include "rb/run/rb_run.h"

void ab_spares_init(ab_spares *spares);
void ab_spares_mark(const ab_spares *spares);
/* Frees the spares. Their fibers may be gone, but not run any more. */
void ab_spares_fini(ab_spares *spares);

enum ab_spare_answer {
  AB_SPARE_COMES,  /* one is on its way */
  AB_SPARE_MAKING, /* the GVL's owner has to call ab_spares_make, or to let the new thread run */
  AB_SPARE_NONE    /* all are kept: it is up to those that run now */
};
/* Has a spare claim the lead. The standby's. */
enum ab_spare_answer ab_spares_call(ab_run *run);
/* Makes ready to call for spares, and what is left to do when none is called any more. */
void ab_spares_begin(ab_run *run);
void ab_spares_part(ab_run *run);
/* Has a thread made even if all that are kept wait outside of Ruby. The standby's. */
void ab_spares_rouse(ab_run *run);
/* True when a spare is on its way, and does not run on this thread. */
bool ab_spares_is_making(const ab_run *run);
/* Makes the thread of a spare if one is wanted. Never raises, and runs no Ruby code here. */
void ab_spares_make(ab_run *run);
/* Serves on the calling thread, whose scheduler must be `scheduler`, until the run ends. Raises as
 * ab_loop_of and ab_pool_of, and NoMemoryError; the main loop raises what concerns the process. */
void ab_spares_run(ab_run *run, VALUE scheduler, VALUE pool);
/* Calls fn for the main driver and for that of each spare. */
void ab_spares_each(ab_run *run, void (*fn)(ab_driver *driver));
/* Fibers that have a request, in all pools. */
size_t ab_spares_busy(const ab_run *run);
/* Where there are threads for requests: do threads other than the driver's compute? */
bool ab_spares_contended(const ab_driver *driver);
/* True when no fiber is left on a spare. */
bool ab_spares_quiet(const ab_run *run);
/* Raises the exception in all fibers beside requests that wait and have none on its way. */
void ab_spares_interrupt_others(ab_run *run, VALUE exception);
/* Raises what ended a spare and concerns the process; on the main loop. */
void ab_spares_raise(ab_run *run);
/* Ends the spares and waits for their threads; with `abandon` without their fibers. Returns 0, or
 * the state of what was raised meanwhile, with rb_errinfo set. */
int ab_spares_end(ab_run *run, bool abandon);

#endif
