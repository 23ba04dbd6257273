/* What a page remembers goes on in the page of the next program. */
#ifndef AB_PAGE_CARRY_H
#define AB_PAGE_CARRY_H

#include "page/page.h"

/* Before the first claim in `to`: history, events and kept requests, with the names of their
 * routes. Counters begin at 0. Each number of a worker has as many slots in both pages: one alone,
 * or two halves. What finds no slot, or no room on the file system, is left out. */
void ab_page_carry(ab_page *to, const ab_page *from);

#endif
