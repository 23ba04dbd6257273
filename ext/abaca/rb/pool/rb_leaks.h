/* Tells Abaca::FiberPool's leak report, if it is on, what a job has left on its fiber. */
#ifndef AB_RB_LEAKS_H
#define AB_RB_LEAKS_H

#include <ruby.h>

/* `names` were found on the current fiber; those in the Hash `kept` (or nil) belong there. `kind`
 * is "local", "storage" or "variable", `job` the job's block or nil. */
void ab__leaks_found(const char *kind, VALUE names, VALUE kept, VALUE job);

#endif
