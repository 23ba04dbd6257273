/* Memory that processes share by a descriptor, without a name in any file system. */
#ifndef AB_PAGE_NAMELESS_H
#define AB_PAGE_NAMELESS_H

#include "base/mem.h"

/* Both return a descriptor, the caller's, of a file of 0 bytes that is not inherited by programs;
 * -1 with errno. /proc shows `name`. */

/* In memory, and it may be sealed. ENOSYS or EPERM: the kernel, or a sandbox, has none. */
int ab_nameless_memory(const char *name) AB_WARN_UNUSED;
/* On the file system of `directory`. */
int ab_nameless_file(const char *directory, const char *name) AB_WARN_UNUSED;

#endif
