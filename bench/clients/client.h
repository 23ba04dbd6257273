/* What all clients of the benchmarks need: the clock, an end with a reason, and lists of times. */
#ifndef BENCH_CLIENTS_CLIENT_H
#define BENCH_CLIENTS_CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

struct list {
  int64_t *values;
  size_t count, room;
};

static inline void die(const char *what) {
  perror(what);
  exit(1);
}

/* Monotonic nanoseconds. */
static inline int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

static inline void add(struct list *list, int64_t value) {
  if (list->count == list->room) {
    list->room = list->room ? 2 * list->room : 1024;
    list->values = realloc(list->values, list->room * sizeof *list->values);
    if (!list->values) die("memory");
  }
  list->values[list->count++] = value;
}

static inline int by_size(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static inline void sort(struct list *list) {
  if (list->count) qsort(list->values, list->count, sizeof *list->values, by_size);
}

/* The value that `percent` of a sorted list do not exceed; 0 in an empty one. */
static inline int64_t at_share(const struct list *list, double percent) {
  if (list->count == 0) return 0;
  return list->values[(size_t)((double)(list->count - 1) * percent / 100)];
}

/* The same in microseconds, of times. */
static inline long long microseconds(const struct list *list, double percent) {
  return (long long)at_share(list, percent) / 1000;
}

#endif
