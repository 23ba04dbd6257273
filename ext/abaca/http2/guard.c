#include "http2/guard.h"

#include <string.h>

void ab__h2_guard_init(ab__h2_guard *self) {
  memset(self, 0, sizeof *self);
  self->allowed = AB__H2_FRAMES_FREE;
}

/* Whole units leak; what remains of the time counts later. */
static void leak(ab__h2_bucket *bucket, uint32_t rate, ab_nsec now) {
  if (now <= bucket->since) return;
  ab_nsec unit = AB_NSEC_PER_SEC / rate, units = (now - bucket->since) / unit;
  if (units >= bucket->level) {
    bucket->level = 0;
    bucket->since = now;
  } else {
    bucket->level -= (uint32_t)units;
    bucket->since += units * unit;
  }
}

static bool pour(ab__h2_bucket *bucket, uint32_t burst, uint32_t rate, ab_nsec now) {
  leak(bucket, rate, now);
  if (bucket->level >= burst) return false;
  bucket->level++;
  return true;
}

bool ab__h2_guard_fault(ab__h2_guard *self) {
  return pour(&self->faults, AB__H2_FAULTS_BURST, AB__H2_FAULTS_RATE, self->now);
}

bool ab__h2_guard_reset(ab__h2_guard *self) {
  return pour(&self->resets, AB__H2_RESETS_BURST, AB__H2_RESETS_RATE, self->now);
}

bool ab__h2_guard_frame(ab__h2_guard *self) {
  if (self->allowed == 0) return ab__h2_guard_fault(self);
  self->allowed--;
  return true;
}

bool ab__h2_guard_data(ab__h2_guard *self, size_t len) {
  if (len >= AB__H2_PIECE_MIN) {
    ab__h2_guard_progress(self);
  } else if (len > 0) {
    self->allowed++;
    return pour(&self->pieces, AB__H2_PIECES_BURST, AB__H2_PIECES_RATE, self->now);
  }
  return true;
}
