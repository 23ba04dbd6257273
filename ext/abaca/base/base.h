/* Attributes, error codes and small helpers that every room uses.
 * Errors of the C core are negative members of `enum ab_err`; 0 is success and a positive number is
 * a count. No function of the core sets or reads errno above io/, and none longjmps. */
#ifndef AB_BASE_BASE_H
#define AB_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AB_LIKELY(x)        __builtin_expect(!!(x), 1)
#define AB_UNLIKELY(x)      __builtin_expect(!!(x), 0)
#define AB_UNUSED           __attribute__((unused))
#define AB_WARN_UNUSED      __attribute__((warn_unused_result))
#define AB_NOINLINE         __attribute__((noinline))
#define AB_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The structure that contains `member` at address `ptr`. */
#define AB_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

enum ab_err {
  AB_OK = 0,
  AB_AGAIN = -1,   /* nothing to do until more bytes, room or time arrive */
  AB_ENOMEM = -2,  /* the allocator refused */
  AB_ECLOSED = -3, /* the object has been closed */
  AB_EINVAL = -4,  /* an argument breaks the function's rule */
  AB_EPEER = -5,   /* the peer has gone */
  AB_ESYS = -6,    /* a system call failed beyond repair: see the function's comment */
  AB_ELIMIT = -7,  /* a limit of base/limits.h was exceeded */
  AB_ENOSPC = -8   /* no room on the device */
};

/* A borrowed run of bytes; valid as long as what it was taken from. */
typedef struct ab_view {
  const char *ptr;
  size_t len;
} ab_view;

/* Absolute monotonic time in nanoseconds. 0 means "never" where a deadline is optional. */
typedef uint64_t ab_nsec;

#define AB_NSEC_PER_SEC ((ab_nsec)1000000000)
#define AB_NSEC_PER_MS  ((ab_nsec)1000000)

/* The earlier of two optional deadlines; 0 if there is neither. */
static inline ab_nsec ab_earlier(ab_nsec a, ab_nsec b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

#endif
