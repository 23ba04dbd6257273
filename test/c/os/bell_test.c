/* A bell is heard once for any number of rings, and is as quiet as before when it was hushed. */
#include "os/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

static bool is_rung(const ab_os_bell *bell) {
  struct pollfd readable = {bell->fd, POLLIN, 0};
  return poll(&readable, 1, 0) == 1;
}

CHECK_CASE(rings_are_merged) {
  ab_os_bell bell;
  CHECK_INT(0, ab_os_bell_init(&bell));
  CHECK(!is_rung(&bell));
  CHECK(!ab_os_bell_hush(&bell));
  /* More than a pipe holds. */
  for (int i = 0; i < 100000; i++) ab_os_bell_ring(&bell);
  CHECK(is_rung(&bell));
  CHECK(ab_os_bell_hush(&bell));
  CHECK(!is_rung(&bell));
  CHECK(!ab_os_bell_hush(&bell));
  ab_os_bell_ring(&bell);
  CHECK(is_rung(&bell));
  ab_os_bell_fini(&bell);
}

CHECK_CASE(errno_is_kept) {
  ab_os_bell bell;
  CHECK_INT(0, ab_os_bell_init(&bell));
  errno = ENOTDIR;
  ab_os_bell_hush(&bell);
  for (int i = 0; i < 100000; i++) ab_os_bell_ring(&bell);
  ab_os_bell_hush(&bell);
  CHECK_INT(ENOTDIR, errno);
  ab_os_bell_fini(&bell);
  ab_os_bell_ring(&bell);
  CHECK(!ab_os_bell_hush(&bell));
  CHECK_INT(ENOTDIR, errno);
}

CHECK_CASE(no_program_inherits_it_and_nobody_waits_in_it) {
  ab_os_bell bell;
  CHECK_INT(0, ab_os_bell_init(&bell));
  const int ends[] = {bell.fd, bell.rope};
  for (int i = 0; i < 2; i++) {
    CHECK_INT(FD_CLOEXEC, fcntl(ends[i], F_GETFD));
    CHECK(fcntl(ends[i], F_GETFL) & O_NONBLOCK);
  }
  ab_os_bell_fini(&bell);
  CHECK_INT(-1, fcntl(ends[0], F_GETFD));
  CHECK_INT(-1, fcntl(ends[1], F_GETFD));
  ab_os_bell_fini(&bell);
}

CHECK_CASE(without_descriptors_there_is_none) {
  struct rlimit usual, least = {0, 0};
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &usual));
  least.rlim_max = usual.rlim_max;
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &least));
  ab_os_bell bell;
  CHECK_INT(-1, ab_os_bell_init(&bell));
  CHECK_INT(EMFILE, errno);
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &usual));
  CHECK_INT(-1, bell.fd);
  ab_os_bell_fini(&bell);
}

CHECK_MAIN()
