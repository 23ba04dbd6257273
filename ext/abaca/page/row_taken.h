/* A row begins where most begin: a request that came at once and was taken at once. It is inlined,
 * since every request does it.
 *
 * Most requests then run to their end without a turn. Such a row is *plain*: its `touched` says so,
 * and what it has of a request is what this file has written. The next request need not clear the
 * rest. Whoever writes anything else into a row has turned it before, or begins it by ab_row_begin,
 * but for single words that each beginning sets (status, phase, children). */
#ifndef AB_PAGE_ROW_TAKEN_H
#define AB_PAGE_ROW_TAKEN_H

#include "page/row.h"

/* `touched` of a plain row. */
#define AB_ROW_PLAIN (1u << AB_STATE_QUEUE)

/* It was taken at once, and has run since then. For the thread that writes it. */
static inline bool ab_row_is_plain(const ab_row *row) {
  return row->touched == AB_ROW_PLAIN;
}

/* Makes the row of a request that is over, or of another process, a plain one's. Within open and
 * close. */
void ab__row_clean(ab_row *row);

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

/* The last bytes of a text, less than a word, read by no call: two that overlap are all four to
 * seven, three are all one to three. Their places in memory are those of the bytes. */
static inline ab_word ab__row_last_word(const char *ptr, size_t len) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (len >= 4) {
    uint32_t first, last;
    memcpy(&first, ptr, sizeof(first));
    memcpy(&last, ptr + len - sizeof(last), sizeof(last));
    return first | (ab_word)last << 8 * (len - sizeof(last));
  }
  const uint8_t *bytes = (const uint8_t *)ptr;
  return bytes[0] | (ab_word)bytes[len / 2] << 8 * (len / 2) |
         (ab_word)bytes[len - 1] << 8 * (len - 1);
#else
  ab_word word = 0;
  memcpy(&word, ptr, len);
  return word;
#endif
}

static inline void ab__row_put_path(ab_row *row, const char *ptr, size_t len) {
  char *to = row->path;
  for (; len >= sizeof(ab_word); len -= sizeof(ab_word)) {
    ab__row_put_word(to, ptr);
    to += sizeof(ab_word);
    ptr += sizeof(ab_word);
  }
  if (len > 0) AB_PUT(*(ab_word *)(void *)to, ab__row_last_word(ptr, len));
}

/* Begins the row of a request that was taken at `now`, in few stores: since start->began it was in
 * the queue, and from now on it runs. Its peer is known. */
static inline void ab_row_begin_taken(ab_row *row, const ab_row_start *start, ab_nsec now) {
  ab_nsec waited = now > start->began ? now - start->began : 0;
  size_t len = start->path.len < AB_ROW_PATH ? start->path.len : AB_ROW_PATH;
  ab_row_open(row);
  if (AB_UNLIKELY(!ab_row_is_plain(row))) ab__row_clean(row);
  AB_PUT(row->state, AB_STATE_RUN);
  AB_PUT(row->used, 1);
  AB_PUT(row->mode, (uint8_t)start->mode);
  AB_PUT(row->phase, AB_ROW_CALLED);
  AB_PUT(row->since, start->began + waited);
  AB_PUT(row->id, start->id);
  AB_PUT(row->began, start->began);
  AB_PUT(row->taken, now);
  AB_PUT(row->place, start->place);
  AB_PUT(row->children, 0);
  AB_PUT(row->status, 0);
  AB_PUT(row->method, (uint8_t)start->method);
  AB_PUT(row->path_len, (uint8_t)len);
  AB_PUT(row->sums[AB_STATE_QUEUE], waited);
  ab__row_put_word(row->peer.bytes, start->peer->bytes);
  ab__row_put_word(row->peer.bytes + 8, start->peer->bytes + 8);
  ab__row_put_half(&row->peer.port, &start->peer->port);
  ab__row_put_path(row, start->path.ptr, len);
  ab_row_close(row);
}

#endif
