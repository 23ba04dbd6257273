/* What kind of descriptor an IO has. */
#ifndef AB_RB_IO_KIND_H
#define AB_RB_IO_KIND_H

#include <fcntl.h>
#include <ruby.h>
#include <ruby/io.h>
#include <stdbool.h>

/* True for every socket that Ruby has opened, which can be read and written, and for IO.popen's pair
 * of pipes. */
static inline bool ab_rb_maybe_socket(VALUE io) {
#ifdef HAVE_RB_IO_MODE
  return (rb_io_mode(io) & FMODE_DUPLEX) != 0;
#else
  return (RFILE(io)->fptr->mode & FMODE_DUPLEX) != 0;
#endif
}

static inline bool ab_rb_is_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

#endif
