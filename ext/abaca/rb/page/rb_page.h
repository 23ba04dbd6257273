/* Abaca::Page and its slots (lib/abaca/page.rb). */
#ifndef AB_RB_PAGE_H
#define AB_RB_PAGE_H

#include <ruby.h>

#include "page/page.h"

/* Adds an engine's figures to a Hash, with the names of docs/stats.md. */
void ab_put_figures(VALUE hash, const ab_figures *figures);

void ab_init_page(VALUE mAbaca);

#endif
