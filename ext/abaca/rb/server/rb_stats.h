/* See rb_stats.c. */
#ifndef AB_RB_STATS_H
#define AB_RB_STATS_H

#include <ruby.h>

/* Adds Engine#stats and #limits. */
void ab_init_stats(VALUE cEngine);

#endif
