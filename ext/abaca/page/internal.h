/* What the files of this room share. */
#ifndef AB_PAGE_INTERNAL_H
#define AB_PAGE_INTERNAL_H

#include "page/page.h"

/* Has the file system keep room for a slot, where the page is a file: AB_OK or AB_ENOSPC. */
int ab__page_reserve(const ab_page *page, uint32_t index);

/* A mark, whatever stands there. */
static inline uint32_t ab__page_mark(const uint32_t *mark, uint32_t count) {
  uint32_t used = AB_GET(*mark);
  return used < count ? used : count;
}

#endif
