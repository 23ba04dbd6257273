/* Memory without a name: see nameless.h. */
#include "page/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Elsewhere the C library's version tells. */
#if !defined(HAVE_MEMFD_CREATE) && defined(MFD_ALLOW_SEALING)
#define HAVE_MEMFD_CREATE 1
#endif

#ifdef HAVE_MEMFD_CREATE
int ab_nameless_memory(const char *name) {
  return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}
#else
int ab_nameless_memory(const char *name AB_UNUSED) {
  errno = ENOSYS;
  return -1;
}
#endif

int ab_nameless_file(const char *directory, const char *name) {
  char path[256];
  int len = snprintf(path, sizeof(path), "%s/%s.XXXXXX", directory, name);
  if (len < 0 || (size_t)len >= sizeof(path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  return fd;
}
