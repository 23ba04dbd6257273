/* write_to: from the queue into an IO, in few system calls.
 * A call that cannot block (sockets, non-blocking descriptors) keeps the GVL: releasing it takes
 * longer. When the kernel takes no more, rb_io_wait waits, in a fiber or thread. A call that may
 * block runs without the GVL; under a scheduler, IO#write does it, as `write` does for what is
 * no IO. */
#include <errno.h>
#include <fcntl.h>
#include <ruby/io.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/thread.h>
#include <unistd.h>

#include "io/socket.h"
#include "os/sockets.h"
#include "rb/outbox/rb_outbox_parts.h"

/* Exported without a header: the first from 3.4 on, when the second changes its arguments. */
#if defined HAVE_RB_IO_BLOCKING_REGION
VALUE rb_io_blocking_region(rb_io_t *io, rb_blocking_function_t *call, void *arg);
#elif defined HAVE_RB_THREAD_IO_BLOCKING_REGION
VALUE rb_thread_io_blocking_region(rb_blocking_function_t *call, void *arg, int fd);
#endif

enum way {
  WAY_SOCKET,   /* sendmsg, which never blocks */
  WAY_DIRECT,   /* writev on a descriptor in non-blocking mode */
  WAY_BLOCKING, /* writev without the GVL */
  WAY_METHOD    /* io.write */
};

typedef struct sending {
  VALUE self, io;
  ab_box *box;
  enum way way;
  bool reads; /* a file that sendfile does not accept is read and written */
  uint64_t sent;
  ssize_t result; /* of the system call */
  int error;      /* errno, if it is negative */
  int fd;
  int file_fd; /* of our own, during sendfile; otherwise -1 */
  void (*call)(struct sending *s);
  bool interrupted; /* an exception has ended the call */
  ab_outbox_next_op *next;
} sending;

/* --- how --- */

static bool is_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK);
}

/* Sockets that Ruby has opened can be read and written. */
static bool may_be_socket(VALUE io) {
#ifdef HAVE_RB_IO_MODE
  return (rb_io_mode(io) & FMODE_DUPLEX) != 0;
#else
  return (RFILE(io)->fptr->mode & FMODE_DUPLEX) != 0;
#endif
}

static enum way way_of_descriptor(int fd) {
  if (is_nonblocking(fd)) return WAY_DIRECT;
  return NIL_P(rb_fiber_scheduler_current()) ? WAY_BLOCKING : WAY_METHOD;
}

/* The IO's own buffer goes first; from here on it is bypassed. */
static void open_io(sending *s) {
  if (!RB_TYPE_P(s->io, T_FILE)) {
    if (!rb_respond_to(s->io, rb_intern("write"))) {
      rb_raise(rb_eTypeError, "write_to needs an IO or an object with write, not %" PRIsVALUE,
               rb_obj_class(s->io));
    }
    if (s->io == s->self) rb_raise(rb_eArgError, "an outbox cannot be written to itself");
    s->way = WAY_METHOD;
    return;
  }
  s->io = rb_io_get_write_io(s->io);
  rb_io_t *fptr;
  GetOpenFile(s->io, fptr);
  rb_io_check_writable(fptr);
  rb_io_flush(s->io);
  /* Until the kernel says that it is not a socket. */
  s->way = may_be_socket(s->io) ? WAY_SOCKET : way_of_descriptor(rb_io_descriptor(s->io));
}

/* --- system calls --- */

static void took(sending *s, uint64_t count) {
  if (count == 0) return;
  s->sent += count;
  ab__box_shift(s->self, s->box, count);
}

static void note(sending *s, ssize_t result) {
  s->result = result;
  s->error = result < 0 ? errno : 0;
}

static void call_writev(sending *s) {
  note(s, writev(s->fd, s->next->iov, s->next->iov_count));
}

static void call_sendfile(sending *s) {
  uint64_t len = s->next->file_len;
  if (len > AB_OUTBOX_BYTES_MAX) len = AB_OUTBOX_BYTES_MAX;
  errno = 0;
  note(s, ab_sock_sendfile_once(s->fd, s->file_fd, s->next->file_offset, len));
}

static void *make_call(void *arg) {
  sending *s = arg;
  s->call(s);
  return NULL;
}

#if defined HAVE_RB_IO_BLOCKING_REGION || defined HAVE_RB_THREAD_IO_BLOCKING_REGION
static VALUE make_call_in_region(void *arg) {
  make_call(arg);
  return Qnil;
}
#endif

/* Ruby knows the descriptor: a thread that closes the IO interrupts and awaits the call. */
static VALUE enter_region(VALUE arg) {
  sending *s = (sending *)arg;
#if defined HAVE_RB_IO_BLOCKING_REGION
  rb_io_t *fptr;
  GetOpenFile(s->io, fptr);
  rb_io_blocking_region(fptr, make_call_in_region, s);
#elif defined HAVE_RB_THREAD_IO_BLOCKING_REGION
  rb_thread_io_blocking_region(make_call_in_region, s, s->fd);
#else
  rb_thread_call_without_gvl(make_call, s, RUBY_UBF_IO, NULL);
#endif
  s->interrupted = false;
  return Qnil;
}

/* What was written is shifted in any case. */
static VALUE leave_region(VALUE arg) {
  sending *s = (sending *)arg;
  s->box->lent = false;
  if (s->file_fd >= 0) ab_fd_close(s->file_fd);
  s->file_fd = -1;
  if (s->interrupted && s->result > 0) took(s, (uint64_t)s->result);
  return Qnil;
}

/* An interrupt that raises nothing comes as EINTR. */
static void without_gvl(sending *s, void (*call)(sending *s)) {
  s->call = call;
  s->result = -1;
  s->error = EINTR;
  s->interrupted = true;
  s->box->lent = true;
  rb_ensure(enter_region, (VALUE)s, leave_region, (VALUE)s);
}

static void send_message(sending *s) {
  struct msghdr message = {.msg_iov = s->next->iov, .msg_iovlen = (size_t)s->next->iov_count};
  note(s, ab_os_sendmsg_now(s->fd, &message));
  if (s->result >= 0 || s->error != ENOTSOCK) return;
  s->way = way_of_descriptor(s->fd);
}

/* One attempt to write s->next->iov. Returns false if it has to be made in another way. */
static bool write_memory(sending *s) {
  s->fd = rb_io_descriptor(s->io);
  if (s->way == WAY_SOCKET) send_message(s);
  if (s->way == WAY_DIRECT) call_writev(s);
  if (s->way == WAY_BLOCKING) without_gvl(s, call_writev);
  return s->way != WAY_METHOD;
}

/* --- what was written --- */

static void wait_for_room(const sending *s) {
#ifdef RUBY_IO_TIMEOUT_DEFAULT
  VALUE ready = rb_io_wait(s->io, INT2FIX(RUBY_IO_WRITABLE), RUBY_IO_TIMEOUT_DEFAULT);
#else
  VALUE ready = rb_io_wait(s->io, INT2FIX(RUBY_IO_WRITABLE), Qnil);
#endif
  if (!RTEST(ready)) {
    rb_raise(rb_path2class("IO::TimeoutError"), "Blocking operation timed out!");
  }
}

/* Deals with s->result and s->error. */
static void conclude(sending *s) {
  if (s->result >= 0) {
    took(s, (uint64_t)s->result);
  } else if (s->error == EAGAIN || s->error == EWOULDBLOCK) {
    wait_for_room(s);
  } else if (s->error != EINTR) {
    rb_syserr_fail(s->error, "write_to");
  }
}

/* With the object's own method, which takes everything, waits as long as it likes, or raises. */
static void call_write(sending *s, VALUE bytes) {
  uint64_t len = (uint64_t)RSTRING_LEN(bytes), drains = s->box->drains;
  rb_funcall(s->io, rb_intern("write"), 1, bytes);
  if (s->box->drains == drains) took(s, len);
}

static void send_memory(sending *s) {
  if (s->way != WAY_METHOD && write_memory(s)) {
    conclude(s);
    return;
  }
  ab_outbox_slice slice;
  ab_outbox_slice_at(s->box->queue, 0, &slice);
  call_write(s, ab__box_string(&slice, s->next->iov[0].iov_len));
}

/* --- files --- */

static void send_read(sending *s, const ab_outbox_slice *slice) {
  VALUE bytes = ab__box_read(slice);
  s->next->iov[0] = (struct iovec){RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes)};
  s->next->iov_count = 1;
  if (s->way != WAY_METHOD && write_memory(s)) {
    conclude(s);
  } else {
    call_write(s, bytes);
  }
  RB_GC_GUARD(bytes);
}

/* sendfile waits for the disk, and on a descriptor in blocking mode for the peer. */
static bool may_use_sendfile(const sending *s) {
  if (s->reads || s->way == WAY_METHOD) return false;
  return way_of_descriptor(rb_io_descriptor(s->io)) != WAY_METHOD;
}

static void send_file(sending *s) {
  ab_outbox_slice slice;
  ab_outbox_slice_at(s->box->queue, 0, &slice);
  int file_fd = ab__box_file(&slice);
  /* Our own descriptor, since the IO may be closed during the call. */
  if (may_use_sendfile(s)) s->file_fd = ab_fd_duplicate(file_fd);
  if (s->file_fd < 0) {
    send_read(s, &slice);
    return;
  }
  s->fd = rb_io_descriptor(s->io);
  without_gvl(s, call_sendfile);
  if (s->result == 0) {
    rb_raise(rb_eEOFError, "the file has become shorter than the scheduled part");
  } else if (s->result == AB_ESYS) {
    s->reads = true; /* if that fails too, it says why */
  } else {
    conclude(s);
  }
}

/* --- all of it --- */

static VALUE send_all(VALUE arg) {
  sending *s = (sending *)arg;
  for (;;) {
    ab_outbox_next(s->box->queue, s->next);
    if (s->next->op == AB_OUTBOX_WRITE) {
      send_memory(s);
    } else if (s->next->op == AB_OUTBOX_FILE) {
      send_file(s);
    } else if (s->next->op != AB_OUTBOX_YIELD) {
      return Qnil;
    }
    rb_thread_check_ints();
  }
}

static VALUE box_write_to(VALUE self, VALUE io) {
  ab_outbox_next_op next; /* large, and not to be cleared */
  sending s = {
      .self = self, .io = io, .box = ab__box_to_change(self), .file_fd = -1, .next = &next};
  open_io(&s);
  ab__box_take(s.box);
  rb_ensure(send_all, (VALUE)&s, ab__box_release, self);
  RB_GC_GUARD(s.io);
  return ULL2NUM(s.sent);
}

void ab__init_outbox_io(VALUE cOutbox) {
  rb_define_method(cOutbox, "write_to", box_write_to, 1);
}
