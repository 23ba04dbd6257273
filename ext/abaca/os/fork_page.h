/* Tells a forked child from the process that created something, by a page that the kernel clears in
 * the child. Asking costs a load; getpid costs a system call. */
#ifndef AB_OS_FORK_PAGE_H
#define AB_OS_FORK_PAGE_H

#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/base.h"

/* NULL where the kernel has no such pages. */
volatile uint32_t *ab_fork_page_init(void);
void ab_fork_page_fini(volatile uint32_t *page);

/* True in a process that was forked after the page was made in `owner`. */
static inline bool ab_fork_page_forked(const volatile uint32_t *page, pid_t owner) {
  return page ? *page == 0 : getpid() != owner;
}

#endif
