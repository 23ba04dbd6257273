/* Something to do on a loop's root fiber at a time, without keeping the loop running for it. */
#ifndef AB_RB_LOOP_TASK_H
#define AB_RB_LOOP_TASK_H

#include "rb/scheduler/rb_scheduler.h"

typedef struct ab_loop_task {
  ab_timeout timeout;
  ab_loop *loop; /* while it is armed */
  void (*run)(struct ab_loop_task *task, ab_nsec now);
} ab_loop_task;

void ab_loop_task_init(ab_loop_task *task, void (*run)(ab_loop_task *task, ab_nsec now));

/* Arms it, unless it is armed. `owner`, which contains the task, is kept alive until it has run
 * or is cancelled. Raises NoMemoryError. */
void ab_loop_task_arm(ab_loop_task *task, ab_loop *loop, VALUE owner, ab_nsec deadline);
void ab_loop_task_cancel(ab_loop_task *task);

static inline bool ab_loop_task_armed(const ab_loop_task *task) {
  return task->loop != NULL;
}

/* For other things on the heap: keeps `owner` alive until `key` is dropped. */
void ab_loop_task_keep(ab_loop *loop, const void *key, VALUE owner);
void ab_loop_task_drop(ab_loop *loop, const void *key);

#endif
