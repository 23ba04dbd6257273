#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef AB_HAS_THREAD_IDS
#include <sys/syscall.h>

uint32_t ab_os_thread_id(void) {
  return (uint32_t)syscall(SYS_gettid);
}
#else
uint32_t ab_os_thread_id(void) {
  return 0;
}
#endif

/* --- numbers from files of the kernel's --- */

#ifdef AB_HAS_PROC
static bool read_file(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t len = read(fd, text, size - 1);
  close(fd);
  text[len > 0 ? len : 0] = '\0';
  return len > 0;
}

uint64_t ab_os_resident(void) {
  char text[128], *end;
  if (!read_file("/proc/self/statm", text, sizeof text)) return 0;
  strtoull(text, &end, 10); /* the size of all that is mapped */
  return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

size_t ab_os_most_mappings(void) {
  char text[32];
  return read_file("/proc/sys/vm/max_map_count", text, sizeof text) ? strtoul(text, NULL, 10) : 0;
}

/* proc(5): the state is the first word behind the name, which may hold any bytes. */
bool ab_os_thread_is_runnable(uint32_t thread) {
  char path[64], text[128];
  snprintf(path, sizeof path, "/proc/self/task/%" PRIu32 "/stat", thread);
  if (!read_file(path, text, sizeof text)) return false;
  const char *name_end = strrchr(text, ')');
  return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}
#else
uint64_t ab_os_resident(void) {
  return 0;
}

bool ab_os_thread_is_runnable(uint32_t thread AB_UNUSED) {
  return false;
}

size_t ab_os_most_mappings(void) {
  return 0;
}
#endif

/* --- children --- */

#ifdef AB_HAS_SUBREAPER
#include <sys/prctl.h>

int ab_os_adopt_orphans(void) {
  return prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
}
#else
int ab_os_adopt_orphans(void) {
  errno = ENOSYS;
  return -1;
}
#endif

#ifdef AB_HAS_PIDFD
#include <sys/syscall.h>

int ab_os_child_fd(pid_t pid) {
  return (int)syscall(SYS_pidfd_open, pid, 0);
}
#else
int ab_os_child_fd(pid_t pid AB_UNUSED) {
  errno = ENOSYS;
  return -1;
}
#endif

/* --- memory --- */

#ifdef AB_HAS_ZEROING_DONTNEED
#include <sys/mman.h>

bool ab_os_give_back(void *start, size_t len) {
  return madvise(start, len, MADV_DONTNEED) == 0;
}
#else
bool ab_os_give_back(void *start AB_UNUSED, size_t len AB_UNUSED) {
  return false;
}
#endif

#ifdef AB_HAS_MALLOC_USABLE_SIZE
#include <malloc.h>

size_t ab_os_allocated(void *ptr) {
  return malloc_usable_size(ptr);
}
#else
size_t ab_os_allocated(void *ptr AB_UNUSED) {
  return 0;
}
#endif
