/* The CPU time of another thread, and whether it could run. */
#ifndef AB_OS_THREAD_CLOCK_H
#define AB_OS_THREAD_CLOCK_H

#include <time.h>

#include "base/base.h"

typedef struct ab_os_thread_clock {
  clockid_t id;
  long thread; /* the system's number of it; 0: unknown */
  bool known;  /* the clock is */
} ab_os_thread_clock;

/* That of the calling thread. */
ab_os_thread_clock ab_os_thread_clock_here(void);
/* In nanoseconds; 0 when it is not known, or the thread has ended. */
ab_nsec ab_os_thread_clock_read(const ab_os_thread_clock *clock);
/* Does the thread run, or wait for nothing but a processor? False where that cannot be known. */
bool ab_os_thread_is_runnable(const ab_os_thread_clock *clock);
/* The CPU time of the calling thread, and that of the process. */
ab_nsec ab_os_own_cpu_time(void);
ab_nsec ab_os_process_cpu_time(void);

#endif
