/* Clocks, and waits that end by them. */
#ifndef AB_OS_TIME_H
#define AB_OS_TIME_H

#include <pthread.h>
#include <time.h>

#include "base/base.h"

/* Seconds since 1970. It may be as late as the tick of the system's clock, and cheaper for that. */
int64_t ab_os_unix_seconds(void);

/* The same for a date of UTC, of the years from 1900 on. Its day of the week and of the year do not
 * matter. */
int64_t ab_os_unix_time(const struct tm *utc);

/* A condition for the next function. Returns 0 or an errno. */
int ab_os_cond_init(pthread_cond_t *cond);
/* Waits until `deadline` at most, in the time of CLOCK_MONOTONIC. Returns as
 * pthread_cond_timedwait. */
int ab_os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, ab_nsec deadline);

#endif
