/* Where the work of each request begins and ends: inlined, for rb/rack. Idle work is as it begins:
 * nothing has run, it is not measured, and the app has said nothing. */
#ifndef AB_RB_WORK_H
#define AB_RB_WORK_H

#include "rb/scheduler/rb_scheduler.h"

/* As ab_loop_begin_work, for what is not measured. */
static inline ab_work *ab_loop_begin_plain_work(ab_loop *loop, ab_row *row) {
  ab_work *work = loop->idle_works;
  if (AB_UNLIKELY(!work)) return ab_loop_begin_work(loop, row, false, 0);
  loop->idle_works = work->next_idle;
  work->row = row;
  ab__loop_runs(loop, work);
  return work;
}

/* The same work ends without a wait: its row, which is plain, is left as it is. */
static inline void ab_loop_end_plain_work(ab_loop *loop, ab_work *work) {
  if (AB_LIKELY(loop->work == work)) ab__loop_runs(loop, NULL);
  work->serial++;
  work->row = NULL;
  work->said = AB_STATE_COUNT;
  work->next_idle = loop->idle_works;
  loop->idle_works = work;
}

#endif
