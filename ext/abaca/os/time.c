#include "os/time.h"

#include <errno.h>

int64_t ab_os_unix_seconds(void) {
  struct timespec ts;
#ifdef AB_HAS_COARSE_CLOCK
  clock_gettime(CLOCK_REALTIME_COARSE, &ts);
#else
  clock_gettime(CLOCK_REALTIME, &ts);
#endif
  return ts.tv_sec;
}

#ifdef AB_HAS_TIMEGM
int64_t ab_os_unix_time(const struct tm *utc) {
  struct tm copy = *utc;
  return timegm(&copy);
}
#else
/* Years are counted from March, so that a leap day is the last one of its year. */
static int64_t days_since_1970(int64_t year, int month, int day) {
  if (month < 2) year--;
  int64_t since_march = (153 * ((month + 10) % 12) + 2) / 5 + day - 1;
  return 365 * year + year / 4 - year / 100 + year / 400 + since_march - 719468;
}

int64_t ab_os_unix_time(const struct tm *utc) {
  int64_t days = days_since_1970((int64_t)utc->tm_year + 1900, utc->tm_mon, utc->tm_mday);
  return ((days * 24 + utc->tm_hour) * 60 + utc->tm_min) * 60 + utc->tm_sec;
}
#endif

static struct timespec timespec_of(ab_nsec time) {
  return (struct timespec){.tv_sec = (time_t)(time / AB_NSEC_PER_SEC),
                           .tv_nsec = (long)(time % AB_NSEC_PER_SEC)};
}

#ifdef AB_HAS_CONDITION_CLOCKS
int ab_os_cond_init(pthread_cond_t *cond) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  int error = pthread_cond_init(cond, &attr);
  pthread_condattr_destroy(&attr);
  return error;
}

int ab_os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, ab_nsec deadline) {
  struct timespec ts = timespec_of(deadline);
  return pthread_cond_timedwait(cond, lock, &ts);
}
#else
int ab_os_cond_init(pthread_cond_t *cond) {
  return pthread_cond_init(cond, NULL);
}

static ab_nsec now_by(clockid_t clock) {
  struct timespec ts;
  clock_gettime(clock, &ts);
  return (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec;
}

#define LONGEST AB_NSEC_PER_SEC

/* The wall clock may be set meanwhile, forward or back: each second it is looked at again. */
int ab_os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, ab_nsec deadline) {
  int error;
  do {
    ab_nsec now = now_by(CLOCK_MONOTONIC), left = deadline > now ? deadline - now : 0;
    struct timespec ts = timespec_of(now_by(CLOCK_REALTIME) + (left < LONGEST ? left : LONGEST));
    error = pthread_cond_timedwait(cond, lock, &ts);
  } while (error == ETIMEDOUT && now_by(CLOCK_MONOTONIC) < deadline);
  return error;
}
#endif
