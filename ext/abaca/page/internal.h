/* What the files of this room share. */
#ifndef AB_PAGE_INTERNAL_H
#define AB_PAGE_INTERNAL_H

#include "page/page.h"

/* What this process has said of itself in a slot that it has claimed. It is kept outside of the
 * page, where anybody may write over it, and told anew with each heartbeat. */
typedef struct ab__page_claim {
  pid_t pid; /* of another process, or 0: it has not claimed it */
  uint32_t number, state, phase;
  ab_nsec taken_at, started_at;
} ab__page_claim;

/* index < ab_page_size; NULL for a page that was opened. */
ab__page_claim *ab__page_claim_of(const ab_page *page, uint32_t index);

/* Has the file system keep room for a slot, where the page is a file: AB_OK or AB_ENOSPC. */
int ab__page_reserve(const ab_page *page, uint32_t index);

/* A mark, whatever stands there. */
static inline uint32_t ab__page_mark(const uint32_t *mark, uint32_t count) {
  uint32_t used = AB_GET(*mark);
  return used < count ? used : count;
}

#endif
