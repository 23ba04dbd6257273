#include "os/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#ifdef AB_HAS_EVENTFD
#include <sys/eventfd.h>

typedef uint64_t ring;

int ab_os_bell_init(ab_os_bell *bell) {
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  *bell = (ab_os_bell){fd, fd};
  return fd < 0 ? -1 : 0;
}

static bool take(int fd) {
  ring count;
  return read(fd, &count, sizeof count) > 0;
}
#else
typedef char ring;

static bool prepare(int fd) {
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

int ab_os_bell_init(ab_os_bell *bell) {
  int ends[2];
  *bell = AB_OS_BELL_NONE;
  if (pipe(ends) != 0) return -1;
  *bell = (ab_os_bell){ends[0], ends[1]};
  if (prepare(ends[0]) && prepare(ends[1])) return 0;
  int error = errno;
  ab_os_bell_fini(bell);
  errno = error;
  return -1;
}

/* All rings at once: as many as a pipe holds. */
static bool take(int fd) {
  char rings[4096];
  bool rung = false;
  ssize_t got;
  do {
    got = read(fd, rings, sizeof rings);
    if (got > 0) rung = true;
  } while (got == (ssize_t)sizeof rings || (got < 0 && errno == EINTR));
  return rung;
}
#endif

void ab_os_bell_fini(ab_os_bell *bell) {
  if (bell->rope >= 0 && bell->rope != bell->fd) close(bell->rope);
  if (bell->fd >= 0) close(bell->fd);
  *bell = AB_OS_BELL_NONE;
}

void ab_os_bell_ring(const ab_os_bell *bell) {
  int saved = errno;
  ring one = 1;
  /* Fails only if it has rung more often than can be counted, or than a pipe holds. */
  ssize_t written = write(bell->rope, &one, sizeof one);
  (void)written;
  errno = saved;
}

bool ab_os_bell_hush(const ab_os_bell *bell) {
  int saved = errno;
  bool rung = take(bell->fd);
  errno = saved;
  return rung;
}
