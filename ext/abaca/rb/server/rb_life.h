/* One life of a server: see rb_life.c. */
#ifndef AB_RB_LIFE_H
#define AB_RB_LIFE_H

#include <ruby.h>

/* Adds Engine#run, #run_spare, #run_on_threads and #run_as_guest. */
void ab_init_life(VALUE cEngine);

#endif
