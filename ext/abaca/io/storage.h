/* Where the bytes of a file come from, and which of them the kernel has in its page cache. */
#ifndef AB_IO_STORAGE_H
#define AB_IO_STORAGE_H

#include "base/base.h"

/* What a read or write of a descriptor may wait for. */
enum ab_file_kind {
  AB_FILE_STREAM, /* a peer: the poller knows */
  AB_FILE_MEMORY, /* nothing: tmpfs, proc, a directory */
  AB_FILE_DISK,   /* a disk; writes go to the page cache first */
  AB_FILE_REMOTE  /* another machine or process, for each write too */
};

enum ab_file_kind ab_file_kind(int fd);

/* The largest length that the next two functions accept. */
#define AB_STORAGE_PIECE ((size_t)512 << 10)

/* True if `len` bytes of a regular file from `offset`, at least one, can be read without waiting
 * for the storage, judging by the first and the last of them: bytes that are read, or evicted,
 * together are adjacent. Does not wait. */
bool ab_storage_is_warm(int fd, uint64_t offset, size_t len);
/* Reads them into memory: as many as exist and can be read. Waits. */
void ab_storage_warm(int fd, uint64_t offset, size_t len);

#endif
