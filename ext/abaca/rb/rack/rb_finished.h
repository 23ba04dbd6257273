/* rack.response_finished and rack.after_reply: see rb_finished.c. */
#ifndef AB_RB_FINISHED_H
#define AB_RB_FINISHED_H

#include "rb/rack/rb_call.h"

/* Calls what the app has put into rack.response_finished and rack.after_reply. The connection may
 * serve its next request meanwhile. Exceptions are logged. Returns 0, or the state of one that
 * concerns the process, with rb_errinfo set: then the rest was not called. */
int ab_finished_run(ab_call *call);

#endif
