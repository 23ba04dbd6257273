/* A forked child knows that it is one, by the page and without it. */
#include "os/fork_page.h"

#include <sys/wait.h>

#include "check.h"

/* Whether a child takes itself for one. */
static bool forked_in_a_child(const volatile uint32_t *page, pid_t owner) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) _exit(ab_fork_page_forked(page, owner) ? 7 : 8);
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status) == 7;
}

CHECK_CASE(a_child_reads_zero) {
  volatile uint32_t *page = ab_fork_page_init();
  CHECK_INT(AB_HAS(WIPE_ON_FORK), page != NULL);
  CHECK(!ab_fork_page_forked(page, getpid()));
  CHECK(forked_in_a_child(page, getpid()));
  CHECK(!ab_fork_page_forked(page, getpid()));
  ab_fork_page_fini(page);
}

/* One that the child makes is its own. */
CHECK_CASE(a_page_belongs_to_its_process) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    volatile uint32_t *page = ab_fork_page_init();
    bool right = !ab_fork_page_forked(page, getpid());
    ab_fork_page_fini(page);
    _exit(right ? 7 : 8);
  }
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK_INT(7, WEXITSTATUS(status));
}

CHECK_CASE(without_a_page_the_process_is_compared) {
  CHECK(!ab_fork_page_forked(NULL, getpid()));
  CHECK(forked_in_a_child(NULL, getpid()));
  ab_fork_page_fini(NULL);
}

CHECK_MAIN()
