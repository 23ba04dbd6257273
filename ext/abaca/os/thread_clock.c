#include "os/thread_clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

static ab_nsec read_clock(clockid_t id) {
  struct timespec time;
  if (clock_gettime(id, &time)) return 0;
  return (ab_nsec)time.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)time.tv_nsec;
}

ab_os_thread_clock ab_os_thread_clock_here(void) {
  ab_os_thread_clock clock = {.thread = 0};
#ifdef __linux__
  clock.thread = syscall(SYS_gettid);
#endif
#if defined(_POSIX_THREAD_CPUTIME) && _POSIX_THREAD_CPUTIME >= 0
  clock.known = pthread_getcpuclockid(pthread_self(), &clock.id) == 0;
#endif
  return clock;
}

ab_nsec ab_os_thread_clock_read(const ab_os_thread_clock *clock) {
  return clock->known ? read_clock(clock->id) : 0;
}

/* proc(5): the state is the first word behind the name, which may hold any bytes. */
bool ab_os_thread_is_runnable(const ab_os_thread_clock *clock) {
  char path[64], text[128];
  if (clock->thread <= 0) return false;
  snprintf(path, sizeof path, "/proc/self/task/%ld/stat", clock->thread);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t len = read(fd, text, sizeof text - 1);
  close(fd);
  if (len <= 0) return false;
  text[len] = '\0';
  const char *name_end = strrchr(text, ')');
  return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

ab_nsec ab_os_own_cpu_time(void) {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

ab_nsec ab_os_process_cpu_time(void) {
  return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
