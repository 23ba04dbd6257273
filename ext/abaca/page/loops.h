/* What a loop does now: one line of the page, written by the thread that runs it. */
#ifndef AB_PAGE_LOOPS_H
#define AB_PAGE_LOOPS_H

#include "page/words.h"

#define AB_PAGE_LOOPS 64

/* The order is a part of the page's layout. */
#define AB_LOOP_STATES(STATE)                                                                      \
  STATE(IDLE, "idle")       /* waits for events */                                                 \
  STATE(BUSY, "busy")       /* runs fibers, or its own work */                                     \
  STATE(AWAY, "away")       /* waits for Ruby's lock, or another loop leads */                     \
  STATE(STALLED, "stalled") /* busy for too long, without a turn */

enum ab_loop_state {
#define AB_LOOP_STATE_NAME(name, text) AB_LOOP_STATE_##name,
  AB_LOOP_STATES(AB_LOOP_STATE_NAME)
#undef AB_LOOP_STATE_NAME
      AB_LOOP_STATE_COUNT
};

enum ab_loop_kind {
  AB_LOOP_MAIN,
  AB_LOOP_SPARE,
  AB_LOOP_THREAD, /* a thread of the pool: no loop, but a place where requests run */
  AB_LOOP_GUEST,
  AB_LOOP_KINDS
};

#define AB_LOOP_NO_ROW UINT32_MAX

/* A cache line. `sums` outlive the process: they are counters. */
typedef struct ab_loop_line {
  uint32_t seq;
  uint8_t state; /* enum ab_loop_state */
  uint8_t used;  /* 1: a loop has the line */
  uint8_t kind;  /* enum ab_loop_kind */
  uint8_t reserved;
  ab_nsec since; /* when it came into that state */
  uint32_t row;  /* the row of what runs on it, by its index; AB_LOOP_NO_ROW: none */
  uint32_t tid;  /* its thread's number for the kernel */
  uint64_t tick; /* how many turns it has made */
  uint64_t sums[AB_LOOP_STATE_COUNT]; /* nanoseconds */
} ab_loop_line;

_Static_assert(sizeof(ab_loop_line) == 64, "a loop has a cache line");

/* One thread at a time. `sums` go on from what was counted on the line before. */
void ab_loop_line_begin(ab_loop_line *line, enum ab_loop_kind kind, uint32_t tid, ab_nsec now);
void ab_loop_line_end(ab_loop_line *line, ab_nsec now);

/* The process that had it is no more: of the time since its last turn nothing is known. */
void ab__loop_line_forget(ab_loop_line *line);

/* It is in another state, with another row, from `now` on. If it was busy for `stall_after` or
 * longer, that was a stall; 0: never. */
static inline void ab_loop_line_turn(ab_loop_line *line, enum ab_loop_state state, uint32_t row,
                                     ab_nsec now, ab_nsec stall_after) {
  unsigned was = ab_below(AB_GET(line->state), AB_LOOP_STATE_COUNT, AB_LOOP_STATE_AWAY);
  ab_nsec since = line->since;
  ab_seq_open(&line->seq);
  if (AB_LIKELY(now > since)) {
    if (AB_UNLIKELY(stall_after && now - since >= stall_after) && was == AB_LOOP_STATE_BUSY)
      was = AB_LOOP_STATE_STALLED;
    AB_PUT(line->since, now);
    AB_PUT(line->sums[was], line->sums[was] + (now - since));
  }
  AB_PUT(line->state, (uint8_t)state);
  AB_PUT(line->row, row);
  ab_seq_close(&line->seq);
}

/* Another row, in the same state. */
static inline void ab_loop_line_runs(ab_loop_line *line, uint32_t row) {
  AB_PUT(line->row, row);
}

static inline void ab_loop_line_tick(ab_loop_line *line) {
  AB_ADD(line->tick, 1);
}

/* Copies the line; false if no loop has it, or it is written all the time: then its sums alone may
 * be looked at. States and kinds in the copy are known ones. */
bool ab_loop_line_load(const ab_loop_line *line, ab_loop_line *copy) AB_WARN_UNUSED;
const char *ab_loop_state_name(enum ab_loop_state state);

#endif
