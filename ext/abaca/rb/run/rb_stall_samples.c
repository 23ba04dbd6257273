/* A stack is known by a hash of its frames, so that a sample makes no object unless it is the first
 * one of its stack: where each object starts a collection, the next sample would be due before this
 * one is taken, and nothing else would run. When there are too many stacks the one with the least
 * time gives its place to a new one, and its time goes to the rest. */
#include "rb/run/rb_stall_samples.h"

#include <ruby/debug.h>

#include "rb/rack/rb_label.h"
#include "rb/rack/rb_lookup.h"

/* Frames of a stack that tell it from others, and that are kept. */
#define DEEPEST 128

void ab_stall_samples_want(ab_driver *driver, uint64_t beat, ab_nsec from) {
  atomic_store(&driver->sample_from, from);
  atomic_store(&driver->sample, beat);
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 29);
}

static uint64_t hash_of_stack(const ab_label *label) {
  VALUE frames[DEEPEST];
  int lines[DEEPEST];
  int count = rb_profile_frames(0, DEEPEST, frames, lines);
  uint64_t hash = mix((uint64_t)count, (uint64_t)rb_memhash(label->text, (long)label->size));
  for (int i = 0; i < count; i++) hash = mix(mix(hash, (uint64_t)frames[i]), (uint64_t)lines[i]);
  return hash;
}

static ab_stall_sample *known(ab_stall_samples *samples, uint64_t hash) {
  for (unsigned i = 0; i < samples->count; i++) {
    if (samples->list[i].hash == hash) return &samples->list[i];
  }
  return NULL;
}

static ab_stall_sample *least(ab_stall_samples *samples) {
  ab_stall_sample *found = &samples->list[0];
  for (unsigned i = 1; i < samples->count; i++) {
    if (samples->list[i].time < found->time) found = &samples->list[i];
  }
  return found;
}

static ab_stall_sample *samples_make_room(ab_stall_samples *samples) {
  if (samples->count < AB_STALL_SAMPLES) return &samples->list[samples->count++];
  ab_stall_sample *sample = least(samples);
  samples->rest_time += sample->time;
  samples->rest_times += sample->times;
  return sample;
}

/* The innermost frames of the thread that is here. */
static VALUE backtrace(void) {
  VALUE all = rb_make_backtrace();
  return RARRAY_LEN(all) > DEEPEST ? rb_ary_subseq(all, 0, DEEPEST) : all;
}

static void add(ab_stall_samples *samples, uint64_t hash, const ab_label *label, ab_nsec time) {
  ab_stall_sample *sample = known(samples, hash);
  if (!sample) {
    /* Before the place is taken: there may be no memory. */
    volatile VALUE name = ab_label_to_s(label), stack = backtrace();
    sample = samples_make_room(samples);
    *sample = (ab_stall_sample){.hash = hash, .label = name, .backtrace = stack};
  }
  sample->time += time;
  sample->times++;
}

void ab_stall_samples_take(ab_driver *driver, const ab_call *call) {
  uint64_t beat = atomic_load(&driver->runner.participant.pulse.beat);
  if (AB_LIKELY(atomic_load(&driver->sample) != beat) || !(beat & 1)) return;
  atomic_store(&driver->sample, 0);
  ab_nsec now = ab_clock_monotonic(), from = atomic_load(&driver->sample_from);
  if (driver->sampled == beat) from = driver->sampled_at;
  driver->sampled = beat;
  driver->sampled_at = now;
  if (now <= from) return;
  ab_label label;
  ab_label_write(&label, call);
  uint64_t hash = hash_of_stack(&label);
  ab_stalls *stalls = &driver->run->stalls;
  add(&stalls->kept, hash, &label, now - from);
  if (stalls->profiled) add(&stalls->asked, hash, &label, now - from);
}

void ab_stall_samples_excuse(ab_driver *driver, ab_nsec time) {
  driver->sampled_at += time;
  atomic_fetch_add(&driver->sample_from, time);
}

void ab_stall_samples_mark(const ab_stall_samples *samples) {
  for (unsigned i = 0; i < samples->count; i++) {
    rb_gc_mark(samples->list[i].label);
    rb_gc_mark(samples->list[i].backtrace);
  }
}

void ab_stall_samples_clear(ab_stall_samples *samples) {
  samples->count = 0;
  samples->rest_time = samples->rest_times = 0;
}

static VALUE row(VALUE label, VALUE stack, uint64_t time, uint64_t times) {
  return rb_ary_new_from_args(4, label, stack, ab_float_seconds(time), ULL2NUM(times));
}

VALUE ab_stall_samples_to_a(const ab_stall_samples *samples) {
  VALUE all = rb_ary_new();
  for (unsigned i = 0; i < samples->count; i++) {
    ab_stall_sample one = samples->list[i];
    rb_ary_push(all, row(one.label, one.backtrace, one.time, one.times));
  }
  rb_ary_push(all, row(Qnil, Qnil, samples->rest_time, samples->rest_times));
  return all;
}
