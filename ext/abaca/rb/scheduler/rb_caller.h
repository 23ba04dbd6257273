/* May a hook for reading wait? Ruby waits after -EAGAIN and calls io_read again; but
 * IO#read_nonblock and IO#sysread, which call it too, want to see -EAGAIN. The caller's frame
 * tells them apart. */
#ifndef AB_RB_CALLER_H
#define AB_RB_CALLER_H

#include <ruby.h>

enum ab_caller {
  AB_CALLER_OTHER,    /* the caller handles -EAGAIN */
  AB_CALLER_NONBLOCK, /* the same, regardless of IO#timeout */
  AB_CALLER_WAITS     /* a method of IO that would only wait and call again */
};

#define AB_CALLERS 4

/* The last frames seen; marked, so that none can become another frame. */
typedef struct ab_callers {
  VALUE frames[AB_CALLERS];
  enum ab_caller kinds[AB_CALLERS];
  unsigned next;
} ab_callers;

void ab_callers_mark(const ab_callers *callers);
/* In a hook's C function. */
enum ab_caller ab_callers_ask(ab_callers *callers);

#endif
