/* Who calls a hook for reading: may it wait in there? Ruby waits by itself after -EAGAIN, which
 * takes a second call of io_read; but IO#read_nonblock and IO#sysread call it just as
 * IO#readpartial does, and want to hear of it. What tells them apart is the frame below the hook's.
 */
#ifndef AB_RB_CALLER_H
#define AB_RB_CALLER_H

#include <ruby.h>

enum ab_caller {
  AB_CALLER_OTHER,    /* -EAGAIN is for it to deal with */
  AB_CALLER_NONBLOCK, /* the same, whatever IO#timeout says */
  AB_CALLER_WAITS     /* a method of IO that would only wait and call again */
};

#define AB_CALLERS 4

/* The last ones that were looked at. The frames are marked, so that none of them can become
 * somebody else's. */
typedef struct ab_callers {
  VALUE frames[AB_CALLERS];
  enum ab_caller kinds[AB_CALLERS];
  unsigned next;
} ab_callers;

void ab_callers_mark(const ab_callers *callers);
/* In a hook's C function. */
enum ab_caller ab_callers_ask(ab_callers *callers);

#endif
