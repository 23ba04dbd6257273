/* See rb_requests.c. */
#ifndef AB_RB_REQUESTS_H
#define AB_RB_REQUESTS_H

#include <ruby.h>

/* Adds Engine#requests. */
void ab_init_requests(VALUE cEngine);

#endif
