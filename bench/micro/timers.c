/* What the timers cost: nanoseconds for arming and cancelling among many armed ones.
 *
 *   cc -std=c11 -D_GNU_SOURCE -O2 -Iext/abaca bench/micro/timers.c
 *     ext/abaca/io/{heap,wheel,clock}.c ext/abaca/{os/time,base/mem}.c -o tmp/timers && tmp/timers
 *
 * Each figure is the median of eleven runs. The deadlines of the heap are random; those of the
 * wheel are "in 65 seconds", as for idle connections.
 */
#include <stdio.h>
#include <stdlib.h>

#include "io/timer.h"

enum { ARMED = 10000, OPS = 1000000, RUNS = 11 };

static uint64_t seed = 1;

static uint32_t random_next(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *what, ab_nsec (*run)(void)) {
  double ns[RUNS];
  for (int i = 0; i < RUNS; i++) ns[i] = (double)run() / OPS;
  qsort(ns, RUNS, sizeof ns[0], compare);
  printf("%-44s %6.1f ns (%.1f to %.1f)\n", what, ns[RUNS / 2], ns[0], ns[RUNS - 1]);
}

static ab_heap heap;
static ab_heap_node heap_nodes[ARMED], one_timer;

static ab_nsec heap_arm_and_cancel(void) {
  ab_nsec start = ab_clock_monotonic();
  for (int i = 0; i < OPS; i++) {
    if (ab_heap_arm(&heap, &one_timer, random_next()) != AB_OK) abort();
    ab_heap_cancel(&heap, &one_timer);
  }
  return ab_clock_monotonic() - start;
}

/* A sleep that ends: the earliest is taken off, and armed again somewhere. */
static ab_nsec heap_due_and_arm(void) {
  ab_nsec start = ab_clock_monotonic();
  for (int i = 0; i < OPS; i++) {
    ab_heap_node *node = ab_heap_due(&heap, UINT64_MAX);
    if (ab_heap_arm(&heap, node, node->deadline + random_next()) != AB_OK) abort();
  }
  return ab_clock_monotonic() - start;
}

static ab_wheel wheel;
static ab_wheel_node wheel_nodes[ARMED], one_deadline;
static ab_nsec now;

static ab_nsec wheel_arm_and_cancel(void) {
  ab_nsec start = ab_clock_monotonic();
  for (int i = 0; i < OPS; i++) {
    now += 10000;
    ab_wheel_arm(&wheel, &one_deadline, now + 65 * AB_NSEC_PER_SEC);
    ab_wheel_cancel(&wheel, &one_deadline);
  }
  return ab_clock_monotonic() - start;
}

/* A connection that is used: its deadline moves on. */
static ab_nsec wheel_move(void) {
  ab_nsec start = ab_clock_monotonic();
  for (int i = 0; i < OPS; i++) {
    now += 10000;
    ab_wheel_arm(&wheel, &wheel_nodes[random_next() % ARMED], now + 65 * AB_NSEC_PER_SEC);
  }
  return ab_clock_monotonic() - start;
}

/* What each turn of the loop asks when nothing is due. */
static ab_nsec wheel_turn_with_nothing_due(void) {
  uint64_t sum = 0;
  ab_nsec start = ab_clock_monotonic();
  for (int i = 0; i < OPS; i++) {
    if (ab_wheel_due(&wheel, wheel.tick * AB_WHEEL_TICK)) abort();
    sum += ab_wheel_deadline(&wheel);
  }
  ab_nsec took = ab_clock_monotonic() - start;
  if (sum == 0) abort();
  return took;
}

int main(void) {
  ab_heap_init(&heap, &ab_mem_libc);
  ab_wheel_init(&wheel, now);
  ab_heap_node_init(&one_timer);
  ab_wheel_node_init(&one_deadline);
  for (int i = 0; i < ARMED; i++) {
    ab_heap_node_init(&heap_nodes[i]);
    if (ab_heap_arm(&heap, &heap_nodes[i], random_next()) != AB_OK) return 1;
    ab_wheel_node_init(&wheel_nodes[i]);
    ab_wheel_arm(&wheel, &wheel_nodes[i], 65 * AB_NSEC_PER_SEC);
  }
  printf("%d armed\n", ARMED);
  report("heap: arm and cancel", heap_arm_and_cancel);
  report("heap: take the earliest, arm it again", heap_due_and_arm);
  report("wheel: arm and cancel", wheel_arm_and_cancel);
  report("wheel: move", wheel_move);
  report("wheel: due and deadline, nothing due", wheel_turn_with_nothing_due);
  ab_wheel_fini(&wheel);
  ab_heap_fini(&heap);
  return 0;
}
