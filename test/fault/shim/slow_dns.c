/* For LD_PRELOAD: a DNS that does not answer. Names that end with ".test" are looked up until the
 * file "over" is in the process's folder; then there is no such name. Numeric addresses need no DNS. */
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* libc's own, under the name that it has for itself. */
extern void *dlsym(void *, const char *);
#define NEXT ((void *)-1l)

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
  size_t len = node ? strlen(node) : 0;
  bool numeric = hints && hints->ai_flags & AI_NUMERICHOST;
  if (numeric || len < 5 || strcmp(node + len - 5, ".test") != 0) {
    lookup *next = (lookup *)dlsym(NEXT, "getaddrinfo");
    return next(node, service, hints, found);
  }
  const struct timespec moment = {0, 20000000};
  while (access("over", F_OK) != 0) nanosleep(&moment, NULL);
  return EAI_NONAME;
}
