/* See rb_listen.c. */
#ifndef AB_RB_LISTEN_H
#define AB_RB_LISTEN_H

#include <ruby.h>

/* Adds Engine#add_tcp, #add_unix, #add_fd, #listeners and #close. */
void ab_init_listen(VALUE cEngine);

#endif
