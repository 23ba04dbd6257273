/* Threads leave while their watcher goes to sleep: it wakes up for each, and sees what each did
 * before; ThreadSanitizer looks on as well (`rake races`). */
#include <time.h>

#include "check.h"
#include "io/poller.h"
#include "io/timer.h"
#include "lead/watcher.h"

#define ROUNDS  20000
#define THREADS 2
/* One that is not woken up sleeps for so long. */
#define LOST (20 * AB_NSEC_PER_SEC)

typedef struct leaver {
  ab_pulse pulse;
  uint64_t work;         /* done before it left, for whoever sees its beat */
  uint64_t beat;         /* the watcher's: at the last look */
  _Atomic uint64_t seen; /* the last beat that the watcher has seen; it has read `work` by then */
  unsigned lost, wrong;
} leaver;

typedef struct stage {
  ab_watcher watcher;
  leaver leavers[THREADS];
} stage;

static ab_nsec look(void *ctx, int *fd AB_UNUSED) {
  stage *self = ctx;
  for (int i = 0; i < THREADS; i++) {
    leaver *one = &self->leavers[i];
    uint64_t beat = atomic_load(&one->pulse.beat);
    if (beat == one->beat) continue;
    one->beat = beat;
    if ((beat & 1) && one->work != beat) one->wrong++;
    atomic_store(&one->seen, beat);
  }
  return AB_POLL_FOREVER;
}

static bool away(void *ctx) {
  stage *self = ctx;
  bool left = false;
  for (int i = 0; i < THREADS; i++)
    if (atomic_load(&self->leavers[i].pulse.beat) != self->leavers[i].beat) left = true;
  return left;
}

static const ab_watcher_calls calls = {.look = look, .away = away};

static void *leave_often(void *arg) {
  leaver *self = arg;
  for (unsigned i = 0; i < ROUNDS; i++) {
    uint64_t beat = atomic_load_explicit(&self->pulse.beat, memory_order_relaxed);
    self->work = (beat + 1) | 1;
    ab_pulse_leave(&self->pulse);
    ab_nsec began = ab_clock_monotonic();
    while (atomic_load(&self->seen) != self->work) {
      if (ab_clock_monotonic() - began < LOST / 2) continue;
      self->lost++;
      return NULL;
    }
    if (i % 3 == 0) ab_pulse_return(&self->pulse);
    /* So that the watcher is sometimes asleep, and sometimes about to be. */
    for (volatile unsigned pause = i * 7 % 400; pause > 0; pause--) continue;
  }
  return NULL;
}

CHECK_CASE(nobody_leaves_unseen) {
  stage self;
  memset(&self, 0, sizeof self);
  CHECK_INT(AB_OK, ab_watcher_start(&self.watcher, &calls, &self));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    self.leavers[i].pulse.bell = &self.watcher.bell;
    CHECK_INT(0, pthread_create(&threads[i], NULL, leave_often, &self.leavers[i]));
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  ab_watcher_stop(&self.watcher);
  for (int i = 0; i < THREADS; i++) {
    CHECK_INT(0, self.leavers[i].lost);
    CHECK_INT(0, self.leavers[i].wrong);
  }
}

CHECK_MAIN()
