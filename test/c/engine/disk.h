/* A disk of the test's own, which answers when it is told to, and the threads that read it. */
#ifndef AB_TEST_ENGINE_DISK_H
#define AB_TEST_ENGINE_DISK_H

#include <dirent.h>
#include <poll.h>
#include <pthread.h>

#include "engine/fixture.h"

/* One file, warm from its start to `warm`. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t warm;
  bool stuck;
  bool inherited; /* a descriptor that was read from would have come to a child's program */
  unsigned reads, reading, most_reading;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static AB_UNUSED bool disk_is_warm(int fd, uint64_t offset, size_t len) {
  (void)fd;
  pthread_mutex_lock(&disk.lock);
  bool warm = offset + len <= disk.warm;
  pthread_mutex_unlock(&disk.lock);
  return warm;
}

static AB_UNUSED void disk_warm(int fd, uint64_t offset, size_t len) {
  pthread_mutex_lock(&disk.lock);
  if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC)) disk.inherited = true;
  disk.reads++;
  if (++disk.reading > disk.most_reading) disk.most_reading = disk.reading;
  pthread_cond_broadcast(&disk.changed);
  while (disk.stuck) pthread_cond_wait(&disk.changed, &disk.lock);
  if (offset + len > disk.warm) disk.warm = offset + len;
  disk.reading--;
  pthread_mutex_unlock(&disk.lock);
}

static const ab_storage_calls disk_calls = {disk_is_warm, disk_warm};

static AB_UNUSED void disk_await_reads(unsigned count) {
  pthread_mutex_lock(&disk.lock);
  while (disk.reads < count) pthread_cond_wait(&disk.changed, &disk.lock);
  pthread_mutex_unlock(&disk.lock);
}

static AB_UNUSED bool disk_reads_on(void) {
  pthread_mutex_lock(&disk.lock);
  bool reading = disk.reading > 0;
  pthread_mutex_unlock(&disk.lock);
  return reading;
}

static AB_UNUSED void disk_answers(void) {
  pthread_mutex_lock(&disk.lock);
  disk.stuck = false;
  pthread_cond_broadcast(&disk.changed);
  pthread_mutex_unlock(&disk.lock);
}

static AB_UNUSED int count_threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static int threads_before; /* a sanitizer may have one */

/* Nothing is in memory; `stuck`: it does not answer yet. */
static AB_UNUSED void disk_begin(bool stuck) {
  threads_before = count_threads();
  pthread_mutex_lock(&disk.lock); /* threads that have ended had it */
  disk.warm = 0;
  disk.stuck = stuck;
  disk.reads = disk.reading = disk.most_reading = 0;
  pthread_mutex_unlock(&disk.lock);
}

/* Threads that have nothing to do any more end: the sanitizer shall not see them at the exit. */
static AB_UNUSED void await_threads(void) {
  while (count_threads() > threads_before) poll(NULL, 0, 1);
}

static AB_UNUSED void disk_end(void) {
  disk_answers();
  await_threads();
  CHECK(!disk.inherited);
}

/* Waits for what the threads have to tell, as whoever leads does. */
static AB_UNUSED void await_wake_up(fixture *fx) {
  struct pollfd pollfd = {.fd = ab_poller_fd(fx->poller), .events = POLLIN};
  CHECK_INT(1, poll(&pollfd, 1, 20000));
  fixture_run(fx);
}

#endif
