/* Which bytes of a file can be had without waiting for the storage, and what that is. */
#ifndef AB_OS_PAGE_CACHE_H
#define AB_OS_PAGE_CACHE_H

#include <sys/types.h>

#include "base/base.h"

/* Read and write as pread and pwrite, from -1 as read and write; EAGAIN if that would wait for the
 * storage, or for a peer. ENOSYS, EOPNOTSUPP, EINVAL or ESPIPE: the system cannot promise it, or
 * not for this file. */
ssize_t ab_os_read_cached(int fd, void *buf, size_t len, off_t from);
ssize_t ab_os_write_cached(int fd, const void *bytes, size_t len, off_t from);

/* Whether these bytes of a file are all in memory, as a mapping shows it; false if the system does
 * not tell. `len` is 1 MB at most. */
bool ab_os_is_resident(int fd, off_t offset, size_t len);

enum ab_os_medium {
  AB_OS_MEDIUM_MEMORY,
  AB_OS_MEDIUM_DISK, /* also what the system does not tell */
  AB_OS_MEDIUM_REMOTE
};

/* Where a regular file is stored. */
enum ab_os_medium ab_os_medium_of(int fd, dev_t device);

/* Of a descriptor's flags (F_GETFL): does a write wait for the storage? */
bool ab_os_writes_through(int flags);

#endif
