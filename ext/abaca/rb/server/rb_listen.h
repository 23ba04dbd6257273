/* See rb_listen.c. */
#ifndef AB_RB_LISTEN_H
#define AB_RB_LISTEN_H

#include <ruby.h>

/* Defines Abaca::Listener; adds Engine#listen, #listeners and #close. */
void ab_init_listen(VALUE mAbaca, VALUE cEngine);

#endif
