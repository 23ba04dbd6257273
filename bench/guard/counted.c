/* What the guard loads before the server that it counts, and links to parts.c: where callgrind's
 * counts begin and end, a clock that stands still meanwhile but for a step with each look, and
 * random numbers that are the same in each run, so that hashes have the same collisions.
 *
 * Only the thread that begins is counted, and has that clock. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define STEP   1000 /* nanoseconds */
#define SECOND 1000000000
#define CLOCKS 16

static _Thread_local bool still;
static _Thread_local struct timespec stopped[CLOCKS];

/* Counts this thread from here on; what it did before goes to a file of its own. */
void guard_begin(void) {
  memset(stopped, 0, sizeof stopped);
  still = true;
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS;
}

/* Writes what this thread has done since to the next file. */
void guard_end(void) {
  CALLGRIND_DUMP_STATS;
  still = false;
}

int clock_gettime(clockid_t id, struct timespec *time) {
  if (!still || id < 0 || id >= CLOCKS) return (int)syscall(SYS_clock_gettime, id, time);
  struct timespec *at = &stopped[id];
  if (at->tv_sec == 0 && at->tv_nsec == 0) {
    int result = (int)syscall(SYS_clock_gettime, id, at);
    if (result) return result;
  }
  at->tv_nsec += STEP;
  if (at->tv_nsec >= SECOND) {
    at->tv_nsec -= SECOND;
    at->tv_sec++;
  }
  *time = *at;
  return 0;
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
  static uint64_t state = 1;
  (void)flags;
  unsigned char *byte = bytes;
  for (size_t i = 0; i < size; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte[i] = (unsigned char)(state >> 56);
  }
  return (ssize_t)size;
}

/* Ruby's seed comes from here. */
int getentropy(void *bytes, size_t size) {
  getrandom(bytes, size, 0);
  return 0;
}
