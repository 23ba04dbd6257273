#include "os/cpu_time.h"

#include <pthread.h>
#include <unistd.h>

#include "os/process.h"

static ab_nsec read_clock(clockid_t id) {
  struct timespec time;
  if (clock_gettime(id, &time)) return 0;
  return (ab_nsec)time.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)time.tv_nsec;
}

ab_os_thread_clock ab_os_thread_clock_here(void) {
  ab_os_thread_clock clock = {.thread = ab_os_thread_id()};
#if defined(_POSIX_THREAD_CPUTIME) && _POSIX_THREAD_CPUTIME >= 0
  clock.known = pthread_getcpuclockid(pthread_self(), &clock.id) == 0;
#endif
  return clock;
}

ab_nsec ab_os_thread_clock_read(const ab_os_thread_clock *clock) {
  return clock->known ? read_clock(clock->id) : 0;
}

ab_nsec ab_os_thread_cpu_time(void) {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

ab_nsec ab_os_process_cpu_time(void) {
  return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
