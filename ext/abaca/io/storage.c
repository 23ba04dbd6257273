#include "io/storage.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SMALLEST_PAGE 4096
#define BUFFER        32768 /* on the reader's stack */

/* --- what kind of file --- */

/* No constant of <linux/magic.h> before Linux 6. */
#define CIFS_MAGIC 0xff534d42
#define SMB2_MAGIC 0xfe534d42
#define FUSE_MAGIC 0x65735546

static bool is_among(uint32_t type, const uint32_t *types, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (types[i] == type) return true;
  return false;
}

static enum ab_file_kind kind_of_system(int fd) {
  static const uint32_t memory[] = {TMPFS_MAGIC,        RAMFS_MAGIC, HUGETLBFS_MAGIC,
                                    PROC_SUPER_MAGIC,   SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
                                    CGROUP2_SUPER_MAGIC};
  static const uint32_t remote[] = {NFS_SUPER_MAGIC, V9FS_MAGIC, CIFS_MAGIC, SMB2_MAGIC,
                                    FUSE_MAGIC};
  struct statfs system;
  if (fstatfs(fd, &system) != 0) return AB_FILE_DISK;
  uint32_t type = (uint32_t)system.f_type;
  if (is_among(type, memory, AB_ARRAY_LEN(memory))) return AB_FILE_MEMORY;
  return is_among(type, remote, AB_ARRAY_LEN(remote)) ? AB_FILE_REMOTE : AB_FILE_DISK;
}

enum ab_file_kind ab_file_kind(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return AB_FILE_STREAM;
  if (S_ISBLK(st.st_mode)) return AB_FILE_DISK;
  if (S_ISDIR(st.st_mode)) return AB_FILE_MEMORY;
  if (!S_ISREG(st.st_mode)) return AB_FILE_STREAM;
  /* File systems on a block device have its number; for the others a second call is needed. */
  return major(st.st_dev) != 0 ? AB_FILE_DISK : kind_of_system(fd);
}

/* --- what is in memory --- */

enum answer { WARM, COLD, NO_ANSWER };

/* A read that would wait fails. A read that fails for another reason does not wait, either. */
static enum answer probe(int fd, uint64_t offset) {
#ifdef RWF_NOWAIT
  char byte;
  struct iovec iov = {.iov_base = &byte, .iov_len = 1};
  if (preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT) >= 0) return WARM;
  if (errno == EAGAIN) return COLD;
  return errno == EOPNOTSUPP || errno == ENOSYS ? NO_ANSWER : WARM;
#else
  return NO_ANSWER;
#endif
}

/* mincore reports all of a file as in memory if it may not tell us about the file. */
static bool may_ask_about(int fd) {
  struct stat st;
  uid_t user = geteuid();
  return user == 0 || (fstat(fd, &st) == 0 && st.st_uid == user);
}

static bool all_resident(void *pages, size_t len) {
  unsigned char resident[AB_STORAGE_PIECE / SMALLEST_PAGE + 2];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t count = (len + page - 1) / page;
  if (count > sizeof resident || mincore(pages, len, resident) != 0) return false;
  for (size_t i = 0; i < count; i++)
    if (!(resident[i] & 1)) return false;
  return true;
}

/* The data of overlayfs is in the page cache of the file systems below, which a mapping shows. */
static bool is_mapped_warm(int fd, uint64_t offset, size_t len) {
  if (!may_ask_about(fd)) return false;
  size_t before = (size_t)(offset % (uint64_t)sysconf(_SC_PAGESIZE));
  void *pages = mmap(NULL, before + len, PROT_READ, MAP_SHARED, fd, (off_t)(offset - before));
  if (pages == MAP_FAILED) return false;
  bool warm = all_resident(pages, before + len);
  munmap(pages, before + len);
  return warm;
}

static bool is_warm_where_reads_do_not_tell(int fd, uint64_t offset, size_t len) {
  enum ab_file_kind kind = ab_file_kind(fd);
  if (kind == AB_FILE_MEMORY) return true;
  /* Another machine may be asked whether the cached data is current. */
  return kind == AB_FILE_DISK && is_mapped_warm(fd, offset, len);
}

bool ab_storage_is_warm(int fd, uint64_t offset, size_t len) {
  uint64_t last = offset + len - 1;
  enum answer answer = probe(fd, offset);
  if (answer == NO_ANSWER) return is_warm_where_reads_do_not_tell(fd, offset, len);
  if (answer == COLD || offset / SMALLEST_PAGE == last / SMALLEST_PAGE) return answer == WARM;
  return probe(fd, last) == WARM;
}

void ab_storage_warm(int fd, uint64_t offset, size_t len) {
  char buffer[BUFFER];
  while (len > 0) {
    ssize_t n = pread(fd, buffer, len < sizeof buffer ? len : sizeof buffer, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    offset += (uint64_t)n;
    len -= (size_t)n;
  }
}
