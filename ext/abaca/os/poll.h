/* poll(2), by the nanosecond. */
#ifndef AB_OS_POLL_H
#define AB_OS_POLL_H

#include <poll.h>

#include "base/base.h"

/* Waits for `timeout` nanoseconds; UINT64_MAX: without end. A coarser clock makes it wait longer,
 * never shorter. Returns as poll(2). */
int ab_os_poll(struct pollfd *fds, unsigned count, ab_nsec timeout);

#endif
