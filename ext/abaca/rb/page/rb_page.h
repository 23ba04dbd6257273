/* Abaca::Page and its slots (lib/abaca/page.rb). */
#ifndef AB_RB_PAGE_H
#define AB_RB_PAGE_H

#include <ruby.h>

#include "page/page.h"

/* Adds an engine's figures to a Hash, with the names of docs/stats.md. */
void ab_put_figures(VALUE hash, const ab_figures *figures);

/* --- slots, for the server that runs in one --- */

/* Raises TypeError. */
void ab_slot_check_type(VALUE slot);
/* Raises Abaca::Error unless this process has claimed it and no server runs in it, IOError when the
 * page is closed. */
void ab_slot_check(VALUE slot);
/* A server runs in it from now on, and holds the page. After ab_slot_check. */
ab_page_slot *ab_slot_occupy(VALUE slot, ab_page **page);
uint32_t ab_slot_index(VALUE slot);
/* It does not any more. The page is still to be dropped. */
void ab_slot_vacate(VALUE slot);

void ab_init_page(VALUE mAbaca);
/* All slots together: after ab_init_page. */
void ab_init_tally(VALUE mAbaca);
/* Looks as JSON: after ab_init_page. */
void ab_init_json(VALUE mAbaca);
void ab_init_row_lines(VALUE mAbaca);
/* The app's pools: after ab_init_page. */
void ab_init_pools(VALUE mAbaca);

#endif
