#include "os/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* --- without waiting --- */

#ifdef AB_HAS_NOWAIT
#include <sys/uio.h>

ssize_t ab_os_read_cached(int fd, void *buf, size_t len, off_t from) {
  struct iovec vector = {buf, len};
  return preadv2(fd, &vector, 1, from, RWF_NOWAIT);
}

ssize_t ab_os_write_cached(int fd, const void *bytes, size_t len, off_t from) {
  struct iovec vector = {(void *)bytes, len};
  return pwritev2(fd, &vector, 1, from, RWF_NOWAIT);
}
#else
ssize_t ab_os_read_cached(int fd AB_UNUSED, void *buf AB_UNUSED, size_t len AB_UNUSED,
                          off_t from AB_UNUSED) {
  errno = ENOSYS;
  return -1;
}

ssize_t ab_os_write_cached(int fd AB_UNUSED, const void *bytes AB_UNUSED, size_t len AB_UNUSED,
                           off_t from AB_UNUSED) {
  errno = ENOSYS;
  return -1;
}
#endif

/* --- what is in memory --- */

#ifdef AB_HAS_MINCORE
#include <sys/mman.h>

#define SMALLEST_PAGE 4096
#define MOST          ((size_t)1 << 20)

/* Elsewhere mincore takes char for its last argument. */
static bool all_resident(void *pages, size_t len) {
  unsigned char resident[MOST / SMALLEST_PAGE + 2];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t count = (len + page - 1) / page;
  if (count > sizeof resident || mincore(pages, len, (void *)resident) != 0) return false;
  for (size_t i = 0; i < count; i++)
    if (!(resident[i] & 1)) return false;
  return true;
}

bool ab_os_is_resident(int fd, off_t offset, size_t len) {
  size_t before = (size_t)(offset % sysconf(_SC_PAGESIZE));
  void *pages = mmap(NULL, before + len, PROT_READ, MAP_SHARED, fd, offset - (off_t)before);
  if (pages == MAP_FAILED) return false;
  bool resident = all_resident(pages, before + len);
  munmap(pages, before + len);
  return resident;
}
#else
bool ab_os_is_resident(int fd AB_UNUSED, off_t offset AB_UNUSED, size_t len AB_UNUSED) {
  return false;
}
#endif

/* --- what it is stored on --- */

#ifdef AB_HAS_FILE_SYSTEM_TYPES
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* No constant of <linux/magic.h> before Linux 6. */
#define CIFS_MAGIC 0xff534d42
#define SMB2_MAGIC 0xfe534d42
#define FUSE_MAGIC 0x65735546

static bool is_among(uint32_t type, const uint32_t *types, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (types[i] == type) return true;
  return false;
}

/* File systems on a block device have its number; for the others a second call is needed. */
enum ab_os_medium ab_os_medium_of(int fd, dev_t device) {
  static const uint32_t memory[] = {TMPFS_MAGIC,        RAMFS_MAGIC, HUGETLBFS_MAGIC,
                                    PROC_SUPER_MAGIC,   SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
                                    CGROUP2_SUPER_MAGIC};
  static const uint32_t remote[] = {NFS_SUPER_MAGIC, V9FS_MAGIC, CIFS_MAGIC, SMB2_MAGIC,
                                    FUSE_MAGIC};
  struct statfs system;
  if (major(device) != 0 || fstatfs(fd, &system) != 0) return AB_OS_MEDIUM_DISK;
  uint32_t type = (uint32_t)system.f_type;
  if (is_among(type, memory, AB_ARRAY_LEN(memory))) return AB_OS_MEDIUM_MEMORY;
  return is_among(type, remote, AB_ARRAY_LEN(remote)) ? AB_OS_MEDIUM_REMOTE : AB_OS_MEDIUM_DISK;
}
#else
enum ab_os_medium ab_os_medium_of(int fd AB_UNUSED, dev_t device AB_UNUSED) {
  return AB_OS_MEDIUM_DISK;
}
#endif

#ifdef AB_HAS_DIRECT_FILES
#define DIRECT O_DIRECT
#else
#define DIRECT 0
#endif

bool ab_os_writes_through(int flags) {
  return (flags & (DIRECT | O_DSYNC | O_SYNC)) != 0;
}
