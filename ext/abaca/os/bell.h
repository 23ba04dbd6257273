/* A bell: one thread, or a signal handler, wakes another that waits for descriptors. */
#ifndef AB_OS_BELL_H
#define AB_OS_BELL_H

#include "base/base.h"

/* Both ends of a pipe, or an eventfd twice. */
typedef struct ab_os_bell {
  int fd;   /* readable once it was rung, until it is hushed */
  int rope; /* what is pulled */
} ab_os_bell;

#define AB_OS_BELL_NONE ((ab_os_bell){-1, -1})

/* Its descriptors are non-blocking and close-on-exec. Returns 0, or -1 with errno, and there is
 * none. */
int ab_os_bell_init(ab_os_bell *bell) AB_WARN_UNUSED;
/* Idempotent. */
void ab_os_bell_fini(ab_os_bell *bell);
/* Async-signal-safe; keeps errno. Rings are merged. */
void ab_os_bell_ring(const ab_os_bell *bell);
/* Whether it was rung. Keeps errno. */
bool ab_os_bell_hush(const ab_os_bell *bell);

#endif
