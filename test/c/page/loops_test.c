/* The line of a loop: what it does, for how long, and that no time is counted twice. */
#include "check.h"
#include "page/loops.h"

#define MS AB_NSEC_PER_MS

CHECK_CASE(a_loop_and_its_time) {
  ab_loop_line line = {.seq = 0}, copy;
  CHECK(!ab_loop_line_load(&line, &copy));
  ab_loop_line_begin(&line, AB_LOOP_SPARE, 99, 10 * MS);
  CHECK(ab_loop_line_load(&line, &copy));
  CHECK_INT(AB_LOOP_STATE_AWAY, copy.state);
  CHECK_INT(AB_LOOP_SPARE, copy.kind);
  CHECK_INT(99, copy.tid);
  CHECK(copy.row == AB_LOOP_NO_ROW);
  ab_loop_line_turn(&line, AB_LOOP_STATE_BUSY, 5, 12 * MS, 20 * MS);
  ab_loop_line_tick(&line);
  CHECK(ab_loop_line_load(&line, &copy));
  CHECK_INT(5, copy.row);
  CHECK_INT(1, copy.tick);
  CHECK_INT(12 * MS, copy.since);
  CHECK_INT(2 * MS, copy.sums[AB_LOOP_STATE_AWAY]);
  ab_loop_line_runs(&line, 6);
  ab_loop_line_turn(&line, AB_LOOP_STATE_IDLE, AB_LOOP_NO_ROW, 15 * MS, 20 * MS);
  ab_loop_line_turn(&line, AB_LOOP_STATE_BUSY, 5, 50 * MS, 20 * MS);
  ab_loop_line_turn(&line, AB_LOOP_STATE_IDLE, 5, 70 * MS, 20 * MS); /* a stall */
  ab_loop_line_turn(&line, AB_LOOP_STATE_BUSY, 5, 69 * MS, 20 * MS); /* another clock */
  ab_loop_line_turn(&line, AB_LOOP_STATE_IDLE, 5, 170 * MS, 0);      /* stalls are not looked for */
  ab_loop_line_end(&line, 171 * MS);
  CHECK(!ab_loop_line_load(&line, &copy));
  CHECK_INT(2 * MS, line.sums[AB_LOOP_STATE_AWAY]);
  CHECK_INT(3 * MS + 100 * MS, line.sums[AB_LOOP_STATE_BUSY]);
  CHECK_INT(20 * MS, line.sums[AB_LOOP_STATE_STALLED]);
  CHECK_INT(35 * MS + 1 * MS, line.sums[AB_LOOP_STATE_IDLE]);
}

CHECK_CASE(the_next_loop_on_the_line) {
  ab_loop_line line = {.seq = 0}, copy;
  ab_loop_line_begin(&line, AB_LOOP_MAIN, 1, 10 * MS);
  ab_loop_line_turn(&line, AB_LOOP_STATE_BUSY, 5, 12 * MS, 0);
  ab_seq_open(&line.seq); /* and then it was killed */
  CHECK(!ab_loop_line_load(&line, &copy));
  ab__loop_line_forget(&line);
  CHECK(!ab_loop_line_load(&line, &copy));
  ab_loop_line_begin(&line, AB_LOOP_MAIN, 2, 1000 * MS);
  CHECK(ab_loop_line_load(&line, &copy));
  CHECK_INT(0, copy.tick);
  ab_loop_line_end(&line, 1001 * MS);
  /* What passed between both is nobody's. */
  CHECK_INT(3 * MS, line.sums[AB_LOOP_STATE_AWAY]);
  CHECK_INT(0, line.sums[AB_LOOP_STATE_BUSY]);
}

CHECK_CASE(garbage_is_not_read) {
  for (unsigned byte = 0; byte < 256; byte++) {
    ab_loop_line line, copy;
    memset(&line, (int)byte, sizeof line);
    line.seq = 4;
    if (ab_loop_line_load(&line, &copy))
      CHECK(copy.state < AB_LOOP_STATE_COUNT && copy.kind < AB_LOOP_KINDS);
  }
  CHECK(strcmp("stalled", ab_loop_state_name(AB_LOOP_STATE_STALLED)) == 0);
}

CHECK_MAIN()
