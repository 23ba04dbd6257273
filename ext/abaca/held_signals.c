/* For LD_PRELOAD: keeps signals blocked while a program boots that a hot restart has executed in
 * the place of another. A mask outlives execve, and so does what is pending, but Ruby empties the
 * mask when it starts, long before anybody can have set a handler.
 *
 * ABACA_HELD has a process and numbers of signals: "4711 1 2 15". That process unblocks none of
 * them by setting its mask, until it unblocks one by name. With "-4711 1 2 15" this holds for the
 * children of that process: the program is tried in one of them first. It is not a part of
 * abaca.so, as it is loaded into what comes before Ruby, too, a shell for instance. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 32

/* A function that replaces one of the C library's has no other place for it. */
static struct {
  pid_t process;
  int numbers[MOST];
  atomic_size_t count; /* 0 from the time on at which the program knows of them */
} held;

/* Before main, since nobody may look at the environment while other threads change it. */
__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("ABACA_HELD");
  if (!text) return;
  char *next;
  long process = strtol(text, &next, 10);
  if (process != getpid() && process != -getppid()) return;
  size_t count = 0;
  for (long number; count < MOST && (number = strtol(next, &next, 10)) > 0; count++) {
    held.numbers[count] = (int)number;
  }
  held.process = getpid();
  atomic_store(&held.count, count);
}

static bool has_one_of_them(const sigset_t *set, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (sigismember(set, held.numbers[i]) == 1) return true;
  }
  return false;
}

static int change(int how, const sigset_t *set, sigset_t *before) {
  return sigprocmask(how, set, before) == 0 ? 0 : errno;
}

/* In place of the C library's. */
int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict before) {
  size_t count = set ? atomic_load(&held.count) : 0;
  if (count == 0 || held.process != getpid()) return change(how, set, before);
  if (how == SIG_UNBLOCK && has_one_of_them(set, count)) atomic_store(&held.count, 0);
  if (how != SIG_SETMASK) return change(how, set, before);
  sigset_t mask = *set;
  for (size_t i = 0; i < count; i++) sigaddset(&mask, held.numbers[i]);
  return change(how, &mask, before);
}
