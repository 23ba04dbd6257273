/* Reads and writes that wait for no storage, or say that they cannot promise it. */
#include "os/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

CHECK_CASE(what_was_just_written_is_there) {
  char buf[8];
  FILE *file = tmpfile();
  int fd = fileno(file);
  CHECK_INT(4, write(fd, "text", 4));
#ifdef AB_HAS_NOWAIT
  ssize_t got = ab_os_read_cached(fd, buf, sizeof buf, 1);
  if (got < 0) CHECK_INT(EOPNOTSUPP, errno); /* of this file system */
  if (got >= 0) CHECK_BYTES("ext", buf, (size_t)got);
#else
  CHECK_INT(-1, ab_os_read_cached(fd, buf, sizeof buf, 1));
  CHECK_INT(ENOSYS, errno);
  CHECK_INT(-1, ab_os_write_cached(fd, "more", 4, -1));
  CHECK_INT(ENOSYS, errno);
#endif
  fclose(file);
}

#ifdef AB_HAS_NOWAIT
CHECK_CASE(a_peer_that_says_nothing) {
  int pipes[2];
  char buf[8];
  CHECK_INT(0, pipe(pipes));
  CHECK_INT(-1, ab_os_read_cached(pipes[0], buf, sizeof buf, -1));
  CHECK_INT(EAGAIN, errno);
  CHECK_INT(4, ab_os_write_cached(pipes[1], "text", 4, -1));
  CHECK_INT(4, ab_os_read_cached(pipes[0], buf, sizeof buf, -1));
  close(pipes[0]);
  close(pipes[1]);
}
#endif

CHECK_CASE(what_is_resident) {
  FILE *file = tmpfile();
  static char bytes[65536];
  CHECK_INT(sizeof bytes, write(fileno(file), bytes, sizeof bytes));
#ifdef AB_HAS_MINCORE
  CHECK(ab_os_is_resident(fileno(file), 0, sizeof bytes));
  CHECK(ab_os_is_resident(fileno(file), 5000, 1));
#else
  CHECK(!ab_os_is_resident(fileno(file), 0, sizeof bytes));
#endif
  CHECK(!ab_os_is_resident(-1, 0, 1));
  fclose(file);
}

CHECK_CASE(where_it_is_stored) {
  struct stat info;
  int fd = open("/proc/self/status", O_RDONLY);
  CHECK_INT(0, fstat(fd, &info));
#ifdef AB_HAS_FILE_SYSTEM_TYPES
  CHECK_INT(AB_OS_MEDIUM_MEMORY, ab_os_medium_of(fd, info.st_dev));
#else
  CHECK_INT(AB_OS_MEDIUM_DISK, ab_os_medium_of(fd, info.st_dev));
#endif
  close(fd);
}

CHECK_CASE(which_writes_wait) {
  CHECK(!ab_os_writes_through(O_WRONLY | O_APPEND | O_NONBLOCK));
  CHECK(ab_os_writes_through(O_WRONLY | O_SYNC));
  CHECK(ab_os_writes_through(O_WRONLY | O_DSYNC));
#ifdef AB_HAS_DIRECT_FILES
  CHECK(ab_os_writes_through(O_RDWR | O_DIRECT));
#endif
}

CHECK_MAIN()
