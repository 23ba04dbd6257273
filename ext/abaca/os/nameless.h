/* Memory that processes share by a descriptor, without a name in any file system. */
#ifndef AB_OS_NAMELESS_H
#define AB_OS_NAMELESS_H

#include "base/base.h"

/* Both return a descriptor, the caller's, of a file of 0 bytes that is not inherited by programs;
 * -1 with errno. /proc shows `name`. */

/* In memory, and it may be sealed. ENOSYS or EPERM: the kernel, or a sandbox, has none. */
int ab_nameless_memory(const char *name) AB_WARN_UNUSED;
/* On the file system of `directory`. */
int ab_nameless_file(const char *directory, const char *name) AB_WARN_UNUSED;

/* Neither its size nor this can be changed any more: nothing can pull the memory away from under a
 * process that has it mapped. Does nothing where memory cannot be sealed. */
void ab_nameless_seal(int fd);
/* A file system that is full says so now, not by a SIGBUS later. Returns an errno; 0 also where it
 * cannot be asked. */
int ab_nameless_reserve(int fd, size_t offset, size_t size) AB_WARN_UNUSED;
/* A part of a mapping that nobody has used takes no memory: no huge page stands there. */
void ab_nameless_map_sparsely(void *start, size_t size);

#endif
