/* Memory that is not in use for now: under AddressSanitizer, what reads or writes it fails.
 * Elsewhere this does nothing. */
#ifndef AB_BASE_HIDE_H
#define AB_BASE_HIDE_H

#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

static inline void ab_hide(const void *ptr, size_t len) {
  ASAN_POISON_MEMORY_REGION(ptr, len);
}

static inline void ab_show(const void *ptr, size_t len) {
  ASAN_UNPOISON_MEMORY_REGION(ptr, len);
}
#else
static inline void ab_hide(const void *ptr, size_t len) {
  (void)ptr, (void)len;
}

static inline void ab_show(const void *ptr, size_t len) {
  (void)ptr, (void)len;
}
#endif

#endif
