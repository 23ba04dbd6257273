/* Memory without a name: in memory, or on a file system, and what says that there is none. */
#include "os/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* Empty, no file system has it, programs do not inherit it, and only this user may open it. */
static void check_file(int fd, const char *name) {
  char link[64], target[128] = {0};
  struct stat found;
  CHECK(fd >= 0);
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  CHECK_INT(0, fstat(fd, &found));
  CHECK_INT(0, found.st_nlink);
  CHECK_INT(0, found.st_size);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  CHECK(readlink(link, target, sizeof target - 1) > 0);
  CHECK(strstr(target, name) && strstr(target, "(deleted)"));
  CHECK_INT(4, write(fd, "text", 4));
  char back[4];
  CHECK_INT(4, pread(fd, back, 4, 0));
  CHECK(memcmp(back, "text", 4) == 0);
  close(fd);
}

CHECK_CASE(in_memory) {
  CHECK_NEEDS(MEMFD);
  int fd = ab_nameless_memory("abaca-test");
  CHECK_INT(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
  check_file(fd, "memfd:abaca-test");
}

CHECK_CASE(on_a_file_system) {
  int fd = ab_nameless_file("/dev/shm", "abaca-test");
  struct stat found;
  CHECK_INT(0, fstat(fd, &found));
  CHECK_INT(0600, found.st_mode & 0777);
  check_file(fd, "/dev/shm/abaca-test");
}

CHECK_CASE(a_file_cannot_be_sealed) {
  int fd = ab_nameless_file("/dev/shm", "abaca-test");
  ab_nameless_seal(fd);
  CHECK_INT(0, ftruncate(fd, 100));
  close(fd);
}

CHECK_CASE(sealed_memory_keeps_its_size) {
  CHECK_NEEDS(SEALS);
  int fd = ab_nameless_memory("abaca-test");
  CHECK_INT(0, ftruncate(fd, 100));
  ab_nameless_seal(fd);
  CHECK_INT(-1, ftruncate(fd, 0));
  CHECK_INT(-1, ftruncate(fd, 200));
  CHECK_INT(EPERM, errno);
  close(fd);
}

CHECK_CASE(reserved_it_has_its_blocks) {
  struct stat found;
  int fd = ab_nameless_file("/dev/shm", "abaca-test");
  CHECK_INT(0, ftruncate(fd, 1 << 20));
  CHECK_INT(0, ab_nameless_reserve(fd, 4096, 65536));
  CHECK_INT(0, fstat(fd, &found));
  CHECK_INT(AB_HAS(FALLOCATE) ? 65536 : 0, found.st_blocks * 512);
  CHECK_INT(0, ab_nameless_reserve(fd, 0, 0)); /* the errno of a file system that cannot */
  close(fd);
  CHECK_INT(AB_HAS(FALLOCATE) ? EBADF : 0, ab_nameless_reserve(-1, 0, 1));
}

CHECK_CASE(none) {
  CHECK_INT(-1, ab_nameless_file("/dev/there is no such folder", "abaca-test"));
  CHECK_INT(ENOENT, errno);
  char longest[300];
  memset(longest, 'a', sizeof longest);
  longest[sizeof longest - 1] = 0;
  CHECK_INT(-1, ab_nameless_file("/dev/shm", longest));
  CHECK_INT(ENAMETOOLONG, errno);
  struct rlimit usual, least = {0, 0};
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &usual));
  least.rlim_max = usual.rlim_max;
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &least));
  CHECK_INT(-1, ab_nameless_memory("abaca-test"));
  CHECK_INT(AB_HAS(MEMFD) ? EMFILE : ENOSYS, errno);
  CHECK_INT(-1, ab_nameless_file("/dev/shm", "abaca-test"));
  CHECK_INT(EMFILE, errno);
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &usual));
}

CHECK_MAIN()
