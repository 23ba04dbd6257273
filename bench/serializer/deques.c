/* Three ways in which a queue can say that it is empty, for the queue of a serializer: an array
 * with two ends, whose items are slices. They differ in `dequeue` and in nothing else.
 *
 *   exception  dequeue leaves by longjmp, for C the nearest to an exception
 *   option     dequeue returns an item that says whether it is one
 *   check      the caller asks first, and dequeue expects an item
 *
 * One operation is an item that is queued and taken out again; the queue is emptied after every
 * ITEMS of them, and each variant notices that it is empty in its own way. Prints for each variant
 * and number of items the best of the runs in ns, and the mallocs of an operation as
 * malloc_count.c, which must be loaded, counts them. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

extern unsigned long long malloc_calls(void) __attribute__((weak));

enum { RUNS = 9 };

typedef struct slice {
  const char *ptr;
  size_t len;
  void *owner;
} slice;

typedef struct deque {
  slice *items;
  size_t front, back, capacity;
  jmp_buf empty; /* where dequeue goes to, in the first variant */
} deque;

typedef struct option {
  bool some;
  slice item;
} option;

/* --- the same for all --- */

/* Moves the items to the start, or doubles the array. */
static NOINLINE void make_room(deque *self) {
  size_t count = self->back - self->front;
  if (self->front > 0) {
    memmove(self->items, self->items + self->front, count * sizeof(slice));
  } else {
    self->capacity = self->capacity ? self->capacity * 2 : 4;
    self->items = realloc(self->items, self->capacity * sizeof(slice));
    if (!self->items) abort();
  }
  self->front = 0;
  self->back = count;
}

static NOINLINE void enqueue(deque *self, slice item) {
  if (self->back == self->capacity) make_room(self);
  self->items[self->back++] = item;
}

static inline bool is_empty(const deque *self) {
  return self->front == self->back;
}

/* The owner is forgotten, as a collector must not find it any more. */
static inline slice take(deque *self) {
  slice *slot = &self->items[self->front++];
  slice item = *slot;
  slot->owner = NULL;
  return item;
}

/* --- the three --- */

static NOINLINE slice dequeue_or_jump(deque *self) {
  if (is_empty(self)) longjmp(self->empty, 1);
  return take(self);
}

static NOINLINE option dequeue_option(deque *self) {
  if (is_empty(self)) return (option){.some = false};
  return (option){true, take(self)};
}

static NOINLINE slice dequeue_checked(deque *self) {
  return take(self);
}

/* --- emptying --- */

static NOINLINE size_t drain_exception(deque *self) {
  volatile size_t octets = 0;
  if (setjmp(self->empty) == 0) {
    for (;;) octets += dequeue_or_jump(self).len;
  }
  return octets;
}

static NOINLINE size_t drain_option(deque *self) {
  size_t octets = 0;
  for (option next = dequeue_option(self); next.some; next = dequeue_option(self)) {
    octets += next.item.len;
  }
  return octets;
}

static NOINLINE size_t drain_check(deque *self) {
  size_t octets = 0;
  while (!is_empty(self)) octets += dequeue_checked(self).len;
  return octets;
}

typedef struct variant {
  const char *name;
  size_t (*drain)(deque *self);
} variant;

static const variant variants[] = {
    {"exception", drain_exception}, {"option", drain_option}, {"check", drain_check}};

/* --- measuring --- */

static double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void run(deque *self, const variant *variant, size_t items, size_t operations) {
  size_t octets = 0;
  for (size_t done = 0; done < operations; done += items) {
    for (size_t i = 0; i < items; i++) enqueue(self, (slice){"octets", 6, self});
    octets += variant->drain(self);
    self->front = self->back = 0;
  }
  size_t rounds = (operations + items - 1) / items;
  if (octets == rounds * items * 6) return;
  fprintf(stderr, "%s: octets are missing\n", variant->name);
  exit(1);
}

/* Rounds in which each variant has its turn. */
static void measure(deque *self, size_t items, size_t operations) {
  double best[] = {1e9, 1e9, 1e9};
  unsigned long long mallocs[] = {0, 0, 0};
  for (int i = 0; i < 3; i++) run(self, &variants[i], items, items * 100);
  for (int round = 0; round < RUNS; round++) {
    for (int i = 0; i < 3; i++) {
      unsigned long long before = malloc_calls();
      double start = seconds_now();
      run(self, &variants[i], items, operations);
      double each = (seconds_now() - start) * 1e9 / (double)operations;
      mallocs[i] += malloc_calls() - before;
      if (each < best[i]) best[i] = each;
    }
  }
  for (int i = 0; i < 3; i++) {
    printf("variant=%s items=%zu ns=%.3f mallocs=%.4f\n", variants[i].name, items, best[i],
           (double)mallocs[i] / RUNS / (double)operations);
  }
}

int main(int argc, char **argv) {
  long operations = argc >= 3 ? atol(argv[1]) : 0;
  for (int arg = 2; arg < argc && operations > 0; arg++) {
    if (atol(argv[arg]) <= 0) operations = 0;
  }
  if (operations <= 0 || !malloc_calls) {
    fprintf(stderr, "usage: LD_PRELOAD=malloc_count.so deques OPERATIONS ITEMS...\n");
    return 2;
  }
  deque self = {0};
  for (int arg = 2; arg < argc; arg++) measure(&self, (size_t)atol(argv[arg]), (size_t)operations);
  free(self.items);
  return 0;
}
