/* What the system knows of this process, its threads and its children. */
#ifndef AB_OS_PROCESS_H
#define AB_OS_PROCESS_H

#include <sys/types.h>

#include "base/base.h"

/* The number by which the system names this thread to other processes; 0: it has none. */
uint32_t ab_os_thread_id(void);
/* Does a thread of this process, by that number, run, or wait for nothing but a processor? False
 * where that cannot be known. */
bool ab_os_thread_is_runnable(uint32_t thread);
/* Bytes of memory that the process has; 0: not known. */
uint64_t ab_os_resident(void);
/* How many mappings a process may have; 0: not known, or as many as it wants. */
size_t ab_os_most_mappings(void);
/* From now on, descendants of this process whose parents end become its children. ENOSYS where no
 * process can ask for that. */
int ab_os_adopt_orphans(void) AB_WARN_UNUSED;
/* A descriptor, close-on-exec, that becomes readable when the child ends. ENOSYS: there are none;
 * ESRCH: there is no such child. */
int ab_os_child_fd(pid_t pid) AB_WARN_UNUSED;
/* Gives whole pages of memory back to the system: they are there, and filled with 0, when they are
 * used again. False where that cannot be had; then they stay as they are. */
bool ab_os_give_back(void *start, size_t len);
/* What an allocation by the C library takes; 0: not known. */
size_t ab_os_allocated(void *ptr);

#endif
