/* Which files may be sent as they are, by their path alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#include "io/socket.h"

static char path[] = "/tmp/abaca-file-test-XXXXXX";

static void make(const char *content) {
  strcpy(path + sizeof(path) - 7, "XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  CHECK_INT((long)strlen(content), (long)write(fd, content, strlen(content)));
  close(fd);
}

CHECK_CASE(opens_a_file_with_its_size) {
  uint64_t size = 99;
  make("content");
  int fd = ab_file_open(path, &size);
  CHECK(fd >= 0);
  CHECK_INT(7, (long)size);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  close(fd);
  unlink(path);
}

CHECK_CASE(opens_an_empty_file) {
  uint64_t size = 99;
  make("");
  int fd = ab_file_open(path, &size);
  CHECK(fd >= 0);
  CHECK_INT(0, (long)size);
  close(fd);
  unlink(path);
}

CHECK_CASE(refuses_what_has_no_size) {
  uint64_t size;
  make("");
  unlink(path);
  CHECK_INT(0, mkfifo(path, 0600));
  CHECK_INT(AB_ESYS, ab_file_open(path, &size)); /* and does not wait for a writer */
  unlink(path);
  CHECK_INT(AB_ESYS, ab_file_open(path, &size));
  CHECK_INT(AB_ESYS, ab_file_open("/tmp", &size));
  CHECK_INT(AB_ESYS, ab_file_open("/dev/null", &size));
  CHECK_INT(AB_ESYS, ab_file_open("/proc/self/status", &size));
}

static int open_files(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

CHECK_CASE(leaves_nothing_open) {
  int before = open_files();
  refuses_what_has_no_size();
  CHECK_INT(before, open_files());
}

CHECK_CASE(another_descriptor) {
  uint64_t size;
  make("content");
  int fd = ab_file_open(path, &size), other = ab_fd_duplicate(fd);
  close(fd);
  char text[8];
  CHECK(other >= 0 && other != fd);
  CHECK(fcntl(other, F_GETFD) & FD_CLOEXEC);
  CHECK_INT(7, read(other, text, sizeof(text)));
  close(other);
  CHECK_INT(AB_ESYS, ab_fd_duplicate(other));
  CHECK_INT(EBADF, errno);
  unlink(path);
}

CHECK_MAIN()
