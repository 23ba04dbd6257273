#include "rb/rack/rb_line.h"

#include "os/process.h"
#include "rb/rack/rb_process.h"

/* Lines of this process are in use while their `used` is set: a claim has cleared all others. */
static ab_loop_line *take(const ab_page_parts *parts) {
  for (uint32_t i = 0; i < parts->loop_count; i++) {
    if (!parts->loops[i].used) return &parts->loops[i];
  }
  return NULL;
}

void ab_line_begin(ab_runner *runner, enum ab_loop_kind kind) {
  const ab_sight *sight = runner->rack->sight;
  ab_loop_line *line = sight ? take(&sight->parts) : NULL;
  runner->line = line;
  if (!line) return;
  ab_nsec now = ab_clock_monotonic();
  ab_loop_line_begin(line, kind, ab_os_thread_id(), now);
  bool thread = kind == AB_LOOP_THREAD;
  ab_loop_line_turn(line, thread ? AB_LOOP_STATE_IDLE : AB_LOOP_STATE_BUSY, AB_LOOP_NO_ROW, now, 0);
}

void ab_line_end(ab_runner *runner) {
  ab_loop_line *line = runner->line;
  runner->line = NULL;
  /* In a forked child the line is its parent's. */
  if (line && !ab_rack_forked(runner->rack)) ab_loop_line_end(line, ab_clock_monotonic());
}

void ab_line_shows_call(const ab_call *call, enum ab_state state, ab_nsec now) {
  enum ab_loop_state shown = state == AB_STATE_RUN   ? AB_LOOP_STATE_BUSY
                             : state == AB_STATE_GVL ? AB_LOOP_STATE_AWAY
                                                     : AB_LOOP_STATE_IDLE;
  /* A fiber that waits leaves its thread to others; a thread is kept by its request. */
  bool keeps = shown != AB_LOOP_STATE_IDLE || call->runner->executor->mode == AB_MODE_THREAD;
  ab_line_shows(call->runner, shown, keeps ? call->row : NULL, now);
}
