#ifndef AB_RB_PLATFORM_H
#define AB_RB_PLATFORM_H

#include <ruby.h>

void ab_init_platform(VALUE mAbaca);

#endif
