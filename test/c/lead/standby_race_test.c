/* Output is put off by several threads while the leader is away, and the standby sends all of it;
 * ThreadSanitizer looks on as well (`rake races`). */
#include <pthread.h>

#include "check.h"
#include "io/timer.h"
#include "lead/standby.h"

#define ROUNDS  300
#define THREADS 2
#define LOST    (20 * AB_NSEC_PER_SEC)

typedef struct stage {
  ab_lead lead;
  ab_participant leader;
  ab_standby *standby;
  pthread_mutex_t lock; /* the engine's */
  unsigned put_off;     /* pieces of output */
  unsigned lost;
} stage;

static void end_step(void *engine AB_UNUSED) {}

static bool turn(void *engine AB_UNUSED, ab_nsec now AB_UNUSED) {
  return false;
}

static ab_nsec deadline(void *engine AB_UNUSED) {
  return 0;
}

static bool has_news(void *engine AB_UNUSED, uint8_t below AB_UNUSED) {
  return false;
}

static void flush(void *engine) {
  stage *self = engine;
  pthread_mutex_lock(&self->lock);
  self->put_off = 0;
  pthread_mutex_unlock(&self->lock);
}

static bool runs_more(void *engine AB_UNUSED, unsigned count AB_UNUSED) {
  return true;
}

static uint64_t waited(const void *engine) {
  (void)engine;
  return 0;
}

static const ab_lead_turns turns = {end_step, turn, deadline, has_news, runs_more, flush, waited};

static void *put_off(void *arg) {
  stage *self = arg;
  for (unsigned i = 0; i < ROUNDS; i++) {
    pthread_mutex_lock(&self->lock);
    self->put_off++;
    pthread_mutex_unlock(&self->lock);
    ab_standby_soon(self->standby);
    ab_nsec began = ab_clock_monotonic();
    unsigned left = 1;
    while (left > 0 && ab_clock_monotonic() - began < LOST) {
      pthread_mutex_lock(&self->lock);
      left = self->put_off;
      pthread_mutex_unlock(&self->lock);
      if (i % 4 == 0) break; /* more comes at once */
    }
    if (ab_clock_monotonic() - began >= LOST) __atomic_fetch_add(&self->lost, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

CHECK_CASE(all_that_was_put_off_is_sent) {
  stage self;
  memset(&self, 0, sizeof self);
  CHECK_INT(0, pthread_mutex_init(&self.lock, NULL));
  CHECK_INT(AB_OK, ab_lead_init(&self.lead, &turns, &self));
  ab_poller *poller = ab_poller_init(&ab_mem_libc);
  /* No thread stalls: the leader stays away, and leads. */
  ab_standby_options options = {.stall_after = 3600 * AB_NSEC_PER_SEC,
                                .stall_again = 3600 * AB_NSEC_PER_SEC};
  static const ab_standby_calls calls = {.call = NULL};
  self.standby = ab_standby_start(&self.lead, poller, &options, &calls, &self);
  CHECK(self.standby != NULL);
  ab_participant_init(&self.leader);
  ab_lead_join(&self.lead, &self.leader, ab_standby_bell(self.standby));
  CHECK(ab_lead_take(&self.lead, &self.leader));
  ab_pulse_leave(&self.leader.pulse);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, put_off, &self));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK_INT(0, self.lost);
  ab_lead_part(&self.lead, &self.leader);
  ab_standby_stop(self.standby);
  ab_poller_fini(poller);
  ab_lead_fini(&self.lead);
  pthread_mutex_destroy(&self.lock);
}

CHECK_MAIN()
