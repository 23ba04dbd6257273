/* Dates as seconds, and waits that end when they shall. */
#include "os/time.h"

#include <errno.h>

#include "check.h"
#include "io/timer.h"

CHECK_CASE(the_clock_of_seconds_is_at_most_a_tick_late) {
  int64_t before = (int64_t)(ab_clock_unix_nsec() / AB_NSEC_PER_SEC);
  int64_t now = ab_os_unix_seconds();
  CHECK(now >= before - 1 && now <= (int64_t)(ab_clock_unix_nsec() / AB_NSEC_PER_SEC));
}

/* Each day from 1900 to 2400, and the last second of it. */
CHECK_CASE(dates) {
  int64_t wrong = 0;
  for (int64_t day = -25567; day < 157054; day++) {
    time_t time = (time_t)(day * 86400), last = time + 86399;
    struct tm utc;
    gmtime_r(&time, &utc);
    utc.tm_wday = utc.tm_yday = 99;
    wrong += ab_os_unix_time(&utc) != time;
    gmtime_r(&last, &utc);
    wrong += ab_os_unix_time(&utc) != last;
  }
  CHECK_INT(0, wrong);
}

static void check_wait(ab_nsec time) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t cond;
  CHECK_INT(0, ab_os_cond_init(&cond));
  pthread_mutex_lock(&lock);
  ab_nsec deadline = ab_clock_monotonic() + time;
  int error;
  do error = ab_os_cond_wait(&cond, &lock, deadline);
  while (error == 0);
  CHECK_INT(ETIMEDOUT, error);
  CHECK(ab_clock_monotonic() >= deadline);
  CHECK_INT(ETIMEDOUT, ab_os_cond_wait(&cond, &lock, deadline)); /* it is over already */
  pthread_mutex_unlock(&lock);
  pthread_cond_destroy(&cond);
}

CHECK_CASE(a_wait_ends_at_its_deadline_not_before) {
  check_wait(20 * AB_NSEC_PER_MS);
  check_wait(1100 * AB_NSEC_PER_MS); /* where a second is the longest wait, it is a second one */
}

typedef struct signalled {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool done;
} signalled;

static void *signal_once(void *arg) {
  signalled *self = arg;
  pthread_mutex_lock(&self->lock);
  self->done = true;
  pthread_cond_signal(&self->cond);
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

CHECK_CASE(a_wait_ends_when_it_is_signalled) {
  signalled self = {.lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread;
  CHECK_INT(0, ab_os_cond_init(&self.cond));
  pthread_mutex_lock(&self.lock);
  CHECK_INT(0, pthread_create(&thread, NULL, signal_once, &self));
  ab_nsec deadline = ab_clock_monotonic() + 60 * AB_NSEC_PER_SEC;
  int error = 0;
  while (!self.done && error == 0) error = ab_os_cond_wait(&self.cond, &self.lock, deadline);
  CHECK_INT(0, error);
  pthread_mutex_unlock(&self.lock);
  pthread_join(thread, NULL);
  pthread_cond_destroy(&self.cond);
}

CHECK_MAIN()
