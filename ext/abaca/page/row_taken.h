/* A row begins where most begin: a request that came at once and was taken at once. It is inlined,
 * since every request does it. */
#ifndef AB_PAGE_ROW_TAKEN_H
#define AB_PAGE_ROW_TAKEN_H

#include "page/row.h"

/* Members that fill a word are stored by one. */
typedef struct ab_row_words {
  uint8_t state, used, mode, phase;
  uint32_t touched, route;
  uint16_t place, children, status;
  uint8_t method, path_len;
} ab_row_words;

_Static_assert(offsetof(ab_row, state) == 4 && offsetof(ab_row, touched) == 40 &&
                   offsetof(ab_row, place) == 48 && offsetof(ab_row, cpu) == 56 &&
                   offsetof(ab_row_words, touched) == 4 && offsetof(ab_row_words, place) == 12,
               "members stand together");

static inline void ab__row_put_word(void *to, const void *from) {
  ab_word word;
  memcpy(&word, from, sizeof(word));
  AB_PUT(*(ab_word *)to, word);
}

static inline void ab__row_put_half(void *to, const void *from) {
  ab_half_word half;
  memcpy(&half, from, sizeof(half));
  AB_PUT(*(ab_half_word *)to, half);
}

/* Most paths are short, and behind most of them there are more bytes that can be read. */
static inline void ab__row_put_short_path(ab_row *row, ab_view path) {
  for (size_t i = 0; i + sizeof(ab_word) <= path.len; i += sizeof(ab_word))
    ab__row_put_word(row->path + i, path.ptr + i);
  size_t rest = path.len % sizeof(ab_word);
  if (rest == 0) return;
  ab_word word = 0;
  memcpy(&word, path.ptr + path.len - rest, rest);
  AB_PUT(*(ab_word *)(void *)(row->path + path.len - rest), word);
}

/* Nearly all requests charge these two: what is 0 already may be cleared again. */
static inline void ab__row_clear_charged(ab_row *row) {
  const uint32_t usual = 1u << AB_STATE_QUEUE | 1u << AB_STATE_RUN;
  AB_PUT(row->sums[AB_STATE_QUEUE], 0);
  AB_PUT(row->sums[AB_STATE_RUN], 0);
  for (uint32_t left = row->touched & ~usual; AB_UNLIKELY(left); left &= left - 1)
    AB_PUT(row->sums[__builtin_ctz(left)], 0);
}

/* Begins the row of a request that was taken at `now`, in few stores: the time since `began` was
 * spent in start->state, and from now on it runs. Its peer is known. Only sums that the last
 * request has charged are cleared. */
static inline void ab_row_begin_taken(ab_row *row, const ab_row_start *start, ab_nsec now) {
  ab_nsec waited = now > start->began ? now - start->began : 0;
  size_t len = start->path.len < AB_ROW_PATH ? start->path.len : AB_ROW_PATH;
  const ab_row_words words = {.state = AB_STATE_RUN,
                              .used = 1,
                              .mode = (uint8_t)start->mode,
                              .phase = AB_ROW_CALLED,
                              .touched = 1u << start->state,
                              .route = AB_ROW_NO_ROUTE,
                              .place = start->place,
                              .method = (uint8_t)start->method,
                              .path_len = (uint8_t)len};
  ab_row_open(row);
  ab__row_clear_charged(row);
  ab__row_put_half(&row->state, &words.state);
  AB_PUT(row->since, start->began + waited);
  AB_PUT(row->id, start->id);
  AB_PUT(row->began, start->began);
  AB_PUT(row->taken, now);
  ab__row_put_word(&row->touched, &words.touched);
  ab__row_put_word(&row->place, &words.place);
  AB_PUT(*(ab_word *)(void *)&row->cpu, 0);
  AB_PUT(row->sums[start->state], waited);
  ab__row_put_word(row->peer.bytes, start->peer->bytes);
  ab__row_put_word(row->peer.bytes + 8, start->peer->bytes + 8);
  ab__row_put_half(&row->peer.port, &start->peer->port);
  AB_PUT(row->waits_for.family, 0);
  ab_words_clear(row->trace, sizeof(row->trace));
  ab__row_put_short_path(row, (ab_view){start->path.ptr, len});
  ab_row_close(row);
}

#endif
