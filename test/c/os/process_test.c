/* What the system says of this process, and what it does for it; or that it does not. */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

CHECK_CASE(numbers) {
#ifdef AB_HAS_THREAD_IDS
  CHECK_INT(getpid(), ab_os_thread_id()); /* of the first thread */
#else
  CHECK_INT(0, ab_os_thread_id());
#endif
#ifdef AB_HAS_PROC
  CHECK(ab_os_resident() > 500000 && ab_os_resident() < (uint64_t)1 << 40);
  CHECK(ab_os_most_mappings() >= 1000);
#else
  CHECK_INT(0, ab_os_resident());
  CHECK_INT(0, ab_os_most_mappings());
#endif
}

CHECK_CASE(an_allocation_is_as_large_as_was_asked_for) {
  void *memory = malloc(1000);
#ifdef AB_HAS_MALLOC_USABLE_SIZE
  CHECK(ab_os_allocated(memory) >= 1000);
#else
  CHECK_INT(0, ab_os_allocated(memory));
#endif
  free(memory);
}

CHECK_CASE(memory_that_was_given_back_is_empty) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 4 * page;
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, 'x', size);
  bool given = ab_os_give_back(memory + page, page);
#ifdef AB_HAS_ZEROING_DONTNEED
  CHECK(given);
  CHECK(!ab_os_give_back(memory + 1, page)); /* no whole page */
#else
  CHECK(!given);
#endif
  CHECK_INT(given ? 0 : 'x', memory[page]);
  CHECK_INT('x', memory[0]);
  CHECK_INT('x', memory[2 * page]);
  munmap(memory, size);
}

CHECK_CASE(a_child_ends) {
  pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  int fd = ab_os_child_fd(pid);
  struct pollfd readable = {fd, POLLIN, 0};
#ifdef AB_HAS_PIDFD
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  CHECK_INT(0, poll(&readable, 1, 0));
  kill(pid, SIGKILL);
  CHECK_INT(1, poll(&readable, 1, 60000));
  close(fd);
#else
  CHECK_INT(-1, fd);
  CHECK_INT(ENOSYS, errno);
  kill(pid, SIGKILL);
  CHECK_INT(0, readable.revents);
#endif
  CHECK_INT(pid, waitpid(pid, NULL, 0));
}

/* In a child: the program that plays the tests keeps its own orphans. */
CHECK_CASE(orphans) {
  pid_t pid = fork();
  if (pid == 0) {
    int result = ab_os_adopt_orphans(), error = errno, status;
#ifdef AB_HAS_SUBREAPER
    if (result != 0) _exit(1);
    pid_t parent = fork();
    if (parent == 0) _exit(fork() == 0 ? 3 : 0);
    for (int i = 0; i < 2; i++)
      if (wait(&status) < 0) _exit(2);
    _exit(7);
#else
    (void)status;
    _exit(result == -1 && error == ENOSYS ? 7 : 1);
#endif
    (void)error;
  }
  int status = 0;
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK_INT(7, WEXITSTATUS(status));
}

CHECK_MAIN()
