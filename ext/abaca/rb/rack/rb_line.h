/* Lines of the page: what each loop, or thread that runs requests, does now. A loop writes its own
 * (rb/scheduler/rb_loop_turn.c); here is that of a runner without one. Its thread alone writes it.
 */
#ifndef AB_RB_LINE_H
#define AB_RB_LINE_H

#include "rb/rack/rb_sight.h"

/* The calling thread gets a free line for the runner, if there is one. With the GVL, as the next.
 */
void ab_line_begin(ab_runner *runner, enum ab_loop_kind kind);
void ab_line_end(ab_runner *runner);

/* A loop that has made no turn for so long has stalled; 0: none has, since others go on. */
static inline ab_nsec ab_line_stall_after(const ab_sight *sight, const ab_loop_line *line) {
  return line->kind == AB_LOOP_THREAD ? 0 : sight->stall_after;
}

/* The runner has no loop, and from now on does that; `row` is of the request that has it, or NULL.
 * Also without the GVL, on the runner's thread. */
static inline void ab_line_shows(const ab_runner *runner, enum ab_loop_state state,
                                 const ab_row *row, ab_nsec now) {
  const ab_sight *sight = runner->rack->sight;
  if (!runner->line || !sight) return;
  uint32_t index = row ? ab_rows_index(&sight->rows, row) : AB_LOOP_NO_ROW;
  ab_loop_line_turn(runner->line, state, index, now, ab_line_stall_after(sight, runner->line));
}
/* The same, by the state of its request. */
void ab_line_shows_call(const ab_call *call, enum ab_state state, ab_nsec now);

#endif
