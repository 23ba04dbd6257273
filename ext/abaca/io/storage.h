/* Where the octets of a file are: who has to be asked for them, and which of them the kernel has in
 * its page cache. */
#ifndef AB_IO_STORAGE_H
#define AB_IO_STORAGE_H

#include "base/base.h"

/* Who may keep a read or write of a descriptor waiting. */
enum ab_file_kind {
  AB_FILE_STREAM, /* a peer: the poller knows */
  AB_FILE_MEMORY, /* nobody: tmpfs, proc, a directory */
  AB_FILE_DISK,   /* a disk; what is written goes to the page cache first */
  AB_FILE_REMOTE  /* another machine or process, for each write too */
};

enum ab_file_kind ab_file_kind(int fd);

/* The most that the next two are asked for. */
#define AB_STORAGE_PIECE ((size_t)512 << 10)

/* True when `len` octets of a regular file from `offset`, at least one, can be read without waiting
 * for its storage, as far as the first and the last of them tell: what is read at a time and what
 * is forgotten first lies side by side. Does not wait. */
bool ab_storage_is_warm(int fd, uint64_t offset, size_t len);
/* Reads them, so that they are in memory: as many as there are and as can be read. Waits. */
void ab_storage_warm(int fd, uint64_t offset, size_t len);

#endif
