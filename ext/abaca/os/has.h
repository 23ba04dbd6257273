/* AB_HAS(NAME): whether a probe of probes.rb has found something, as a constant expression. It is
 * for who tells what there is (rb/rb_platform.c); what there is to do about it stands in the files
 * of this room. */
#ifndef AB_OS_HAS_H
#define AB_OS_HAS_H

#include <stdbool.h>

/* -DAB_HAS_NAME defines it as 1, which makes one argument more of what is picked from. */
#define AB__HAS_1                  ignored, true
#define AB__SECOND(first, it, ...) it
#define AB__PICK(...)              AB__SECOND(__VA_ARGS__, )
#define AB__HAS(value)             AB__HAS_VALUE(value)
#define AB__HAS_VALUE(value)       AB__PICK(AB__HAS_##value, false, )
#define AB_HAS(NAME)               AB__HAS(AB_HAS_##NAME)

#endif
