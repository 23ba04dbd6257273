/* CPU time: of another thread, of the calling one, and of the process. */
#ifndef AB_OS_CPU_TIME_H
#define AB_OS_CPU_TIME_H

#include <time.h>

#include "base/base.h"

typedef struct ab_os_thread_clock {
  clockid_t id;
  uint32_t thread; /* ab_os_thread_id */
  bool known;      /* the clock is */
} ab_os_thread_clock;

/* That of the calling thread. */
ab_os_thread_clock ab_os_thread_clock_here(void);
/* In nanoseconds; 0 when it is not known, or the thread has ended. */
ab_nsec ab_os_thread_clock_read(const ab_os_thread_clock *clock);
ab_nsec ab_os_thread_cpu_time(void);
ab_nsec ab_os_process_cpu_time(void);

#endif
