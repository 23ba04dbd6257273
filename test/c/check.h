/* The whole test framework of the C core: named cases, checks that say what they saw, and an
 * allocator that fails on command. Each *_test.c is a program of its own that ends with
 * CHECK_MAIN(). */
#ifndef AB_TEST_CHECK_H
#define AB_TEST_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "os/has.h"

static int check_failures AB_UNUSED;
static int check_count AB_UNUSED;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    check_count++;                                                                                 \
    if (!(condition)) {                                                                            \
      check_failures++;                                                                            \
      fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #condition);        \
    }                                                                                              \
  } while (0)

#define CHECK_INT(expected, actual)                                                                \
  do {                                                                                             \
    check_count++;                                                                                 \
    intmax_t check_e = (intmax_t)(expected), check_a = (intmax_t)(actual);                         \
    if (check_e != check_a) {                                                                      \
      check_failures++;                                                                            \
      fprintf(stderr, "%s:%d: %s: %s is %" PRIdMAX ", expected %" PRIdMAX "\n", __FILE__,          \
              __LINE__, __func__, #actual, check_a, check_e);                                      \
    }                                                                                              \
  } while (0)

/* Compares a NUL-terminated literal with ptr[0 .. len - 1]. */
#define CHECK_BYTES(expected, actual, actual_len)                                                  \
  do {                                                                                             \
    check_count++;                                                                                 \
    size_t check_l = (actual_len);                                                                 \
    if (strlen(expected) != check_l || (check_l && memcmp(expected, actual, check_l) != 0)) {      \
      check_failures++;                                                                            \
      fprintf(stderr, "%s:%d: %s: %s is \"%.*s\", expected \"%s\"\n", __FILE__, __LINE__,          \
              __func__, #actual, (int)check_l, (const char *)(actual), (expected));                \
    }                                                                                              \
  } while (0)

/* Ends a case that cannot be asked here, and says why: no check of it may stand before. */
#define CHECK_LEAVE_OUT(reason)                                                                    \
  do {                                                                                             \
    printf("  left out: %s: %s\n", __func__, reason);                                              \
    return;                                                                                        \
  } while (0)

/* The same where an emulator of a processor passes system calls on (bin/matrix). */
#ifdef AB_TEST_EMULATED
#define CHECK_EMULATOR_LACKS(what) CHECK_LEAVE_OUT("the emulator has no " what)
#else
#define CHECK_EMULATOR_LACKS(what) ((void)0)
#endif

/* The same where the rooms were built without it (rake c:portable). */
#define CHECK_NEEDS(probe)                                                                         \
  do {                                                                                             \
    if (!AB_HAS(probe)) CHECK_LEAVE_OUT("the build has no " #probe);                               \
  } while (0)

/* An allocator that counts, and fails at the call number `fail_at` (from 1; 0: never). */
typedef struct check_mem {
  ab_mem mem; /* hand out &check.mem */
  size_t calls, fail_at, live;
} check_mem;

static AB_UNUSED void *check_mem_realloc(void *ctx, void *ptr, size_t size) {
  check_mem *self = ctx;
  if (size == 0) {
    if (ptr) self->live--;
    free(ptr);
    return NULL;
  }
  if (++self->calls == self->fail_at) return NULL;
  void *moved = realloc(ptr, size);
  if (moved && !ptr) self->live++;
  return moved;
}

static AB_UNUSED void check_mem_init(check_mem *self, size_t fail_at) {
  *self = (check_mem){.mem = {check_mem_realloc, self}, .fail_at = fail_at};
}

typedef struct check_case {
  const char *name;
  void (*run)(void);
  struct check_case *next;
} check_case;

static check_case *check_cases, **check_last AB_UNUSED = &check_cases;

/* A case, CHECK_CASE(what_holds) { ... }, is on the list before main begins. */
#define CHECK_CASE(fn)                                                                             \
  static void fn(void);                                                                            \
  __attribute__((constructor)) static void fn##_is_a_case(void) {                                  \
    static check_case one = {#fn, fn, NULL};                                                       \
    *check_last = &one;                                                                            \
    check_last = &one.next;                                                                        \
  }                                                                                                \
  static void fn(void)

static AB_UNUSED int check_run(const char *only) {
  int run = 0, failed = 0;
  for (const check_case *one = check_cases; one; one = one->next) {
    if (only && !strstr(one->name, only)) continue;
    int before = check_failures;
    one->run();
    run++;
    failed += check_failures != before;
  }
  printf("%d cases, %d checks, %d failed\n", run, check_count, failed);
  return failed || run == 0;
}

#define CHECK_MAIN()                                                                               \
  int main(int argc, char **argv) {                                                                \
    return check_run(argc > 1 ? argv[1] : NULL);                                                   \
  }

#endif
