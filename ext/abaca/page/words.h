/* Words of the page that one thread writes while others read: each is stored and loaded whole, and
 * says nothing of the others. The compiler may not tear or repeat such a store; on the machines
 * that we know it costs what a plain one costs. */
#ifndef AB_PAGE_WORDS_H
#define AB_PAGE_WORDS_H

#include <string.h>

#include "base/base.h"

/* Relaxed: whoever needs an order between words has a fence, or a number that he stores after. */
#define AB_PUT(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define AB_GET(place)        __atomic_load_n(&(place), __ATOMIC_RELAXED)
/* By the only writer of the word. */
#define AB_ADD(place, value) AB_PUT(place, AB_GET(place) + (value))

/* Any process may write anything into the page, so no number of it is an index before it was looked
 * at: one of `limit`, or else `other`. The number comes by AB_GET, which loads it once. */
static inline unsigned ab_below(unsigned number, unsigned limit, unsigned other) {
  return AB_LIKELY(number < limit) ? number : other;
}

/* For words of structs that are copied as such. */
typedef uint64_t __attribute__((may_alias)) ab_word;
typedef uint32_t __attribute__((may_alias)) ab_half_word;

/* Both places are aligned, and `size` is a multiple of a word. */
static inline void ab_words_put(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size / sizeof(ab_word); i++) {
    ab_word word;
    memcpy(&word, (const char *)from + i * sizeof(word), sizeof(word));
    AB_PUT(((ab_word *)to)[i], word);
  }
}

static inline void ab_words_get(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size / sizeof(ab_word); i++) {
    ab_word word = AB_GET(((const ab_word *)from)[i]);
    memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
  }
}

static inline void ab_words_clear(void *to, size_t size) {
  for (size_t i = 0; i < size / sizeof(ab_word); i++) AB_PUT(((ab_word *)to)[i], 0);
}

/* --- a record that is seen whole or not at all --- */

/* `seq` is odd while its writer is within these two, and after it was killed there: then the next
 * one goes on from that. One writer at a time. */
static inline void ab_seq_open(uint32_t *seq) {
  AB_PUT(*seq, AB_GET(*seq) | 1);
  /* No store below is seen before the odd number. Partner: the fence in ab_seq_holds. */
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void ab_seq_close(uint32_t *seq) {
  /* Release: whoever sees the even number sees what was written. Partner: ab_seq_begin. */
  __atomic_store_n(seq, AB_GET(*seq) + 1, __ATOMIC_RELEASE);
}

/* A reader begins with this, ... */
static inline uint32_t ab_seq_begin(const uint32_t *seq) {
  /* Acquire: what is loaded below is of this write, or of a later one. Partner: ab_seq_close. */
  return __atomic_load_n(seq, __ATOMIC_ACQUIRE);
}

/* ... and what it has loaded belongs together if this is true. */
static inline bool ab_seq_holds(const uint32_t *seq, uint32_t begun) {
  /* The loads above come before this one. Partner: the fence in ab_seq_open. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return begun % 2 == 0 && AB_GET(*seq) == begun;
}

/* A write takes less than a microsecond, unless its process dies, or sleeps, within it. */
#define AB_SEQ_TRIES 100

#endif
