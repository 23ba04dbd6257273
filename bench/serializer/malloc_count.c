/* Loaded before a program (LD_PRELOAD), counts its calls of malloc, calloc and realloc.
 * malloc_calls() tells how many there were so far, in all threads. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EARLY 65536

static atomic_ullong calls;
static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);

/* What dlsym itself may ask for, before the others are known; never given back. */
static _Alignas(16) char early[EARLY];
static size_t early_used;

static int is_early(const void *ptr) {
  return (const char *)ptr >= early && (const char *)ptr < early + EARLY;
}

static void *take_early(size_t size) {
  size_t rounded = (size + 15) & ~(size_t)15;
  if (rounded < size || rounded > EARLY - early_used) return NULL;
  void *ptr = early + early_used;
  early_used += rounded;
  return ptr;
}

static void *next(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

/* Function pointers through a copy, because ISO C knows no cast from a pointer to an object. */
static void find(void) {
  static int finding;
  if (real_free || finding) return;
  finding = 1;
  void *found[] = {next("malloc"), next("calloc"), next("realloc"), next("free")};
  memcpy(&real_malloc, &found[0], sizeof found[0]);
  memcpy(&real_calloc, &found[1], sizeof found[1]);
  memcpy(&real_realloc, &found[2], sizeof found[2]);
  memcpy(&real_free, &found[3], sizeof found[3]);
}

unsigned long long malloc_calls(void) {
  return atomic_load_explicit(&calls, memory_order_relaxed);
}

static void count(void) {
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  find();
}

void *malloc(size_t size) {
  count();
  return real_malloc ? real_malloc(size) : take_early(size);
}

void *calloc(size_t number, size_t size) {
  count();
  if (real_calloc) return real_calloc(number, size);
  if (size && number > EARLY / size) return NULL;
  return take_early(number * size); /* static memory is zero */
}

void *realloc(void *ptr, size_t size) {
  count();
  if (!is_early(ptr) && (real_realloc || ptr)) return real_realloc(ptr, size);
  void *moved = real_malloc ? real_malloc(size) : take_early(size);
  if (!moved || !ptr) return moved;
  size_t there = (size_t)(early + EARLY - (char *)ptr);
  memcpy(moved, ptr, size < there ? size : there);
  return moved;
}

void free(void *ptr) {
  find();
  if (ptr && !is_early(ptr)) real_free(ptr);
}
