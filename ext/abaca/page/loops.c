#include "page/loops.h"

/* `since` goes first: whoever is killed between it and a sum has not counted, and no time is
 * counted twice. */
void ab_loop_line_begin(ab_loop_line *line, enum ab_loop_kind kind, uint32_t tid, ab_nsec now) {
  ab_seq_open(&line->seq);
  AB_PUT(line->since, now);
  AB_PUT(line->state, AB_LOOP_STATE_AWAY);
  AB_PUT(line->kind, (uint8_t)kind);
  AB_PUT(line->row, AB_LOOP_NO_ROW);
  AB_PUT(line->tid, tid);
  AB_PUT(line->tick, 0);
  AB_PUT(line->used, 1);
  ab_seq_close(&line->seq);
}

void ab_loop_line_end(ab_loop_line *line, ab_nsec now) {
  ab_loop_line_turn(line, AB_LOOP_STATE_AWAY, AB_LOOP_NO_ROW, now, 0);
  ab__loop_line_forget(line);
}

void ab__loop_line_forget(ab_loop_line *line) {
  ab_seq_open(&line->seq);
  AB_PUT(line->used, 0);
  ab_seq_close(&line->seq);
}

bool ab_loop_line_load(const ab_loop_line *line, ab_loop_line *copy) {
  for (int i = 0; i < AB_SEQ_TRIES; i++) {
    uint32_t seq = ab_seq_begin(&line->seq);
    if (!AB_GET(line->used)) return false;
    ab_words_get(copy, line, sizeof(*line));
    if (ab_seq_holds(&line->seq, seq))
      return copy->used && copy->state < AB_LOOP_STATE_COUNT && copy->kind < AB_LOOP_KINDS;
  }
  return false;
}

const char *ab_loop_state_name(enum ab_loop_state state) {
  static const char *const names[] = {
#define AB_LOOP_STATE_TEXT(name, text) text,
      AB_LOOP_STATES(AB_LOOP_STATE_TEXT)
#undef AB_LOOP_STATE_TEXT
  };
  return names[state];
}
