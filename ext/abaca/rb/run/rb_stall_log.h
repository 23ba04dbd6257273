/* What was found out about stalls, to be logged. */
#ifndef AB_RB_STALL_LOG_H
#define AB_RB_STALL_LOG_H

#include "rb/run/rb_run.h"

/* Logs it; on the leading thread, between turns. */
void ab_stall_log_write(ab_stalls *stalls);
static inline bool ab_stall_log_pending(const ab_stalls *stalls) {
  return AB_UNLIKELY(RARRAY_LEN(stalls->records) > 0);
}

#endif
