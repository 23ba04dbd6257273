/* The scheduler's hooks for I/O. io_read and io_write try the system call first. If it would block,
 * they return -EAGAIN to callers that can wait by themselves, and wait otherwise. A descriptor in
 * blocking mode does not block the call; where the kernel cannot promise that, poll(2) is asked
 * first. Files go through the page cache; rb_sched_file.c does what needs the disk. */
#include "rb/scheduler/rb_scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <ruby/thread.h>
#include <unistd.h>

#include "os/page_cache.h"
#include "os/sockets.h"

#ifdef HAVE_RUBY_IO_BUFFER_H
#include <ruby/io/buffer.h>
#endif

/* This much is copied to the page cache at once, sooner than a thread would do it. */
#define IN_PLACE_WRITE_MAX ((size_t)64 * 1024)

/* A pipe or terminal that poll(2) calls writable takes at least this much without blocking. */
#define BLOCKING_WRITE_MAX 4096

#define READABLE RUBY_IO_READABLE
#define PRIORITY RUBY_IO_PRIORITY
#define WRITABLE RUBY_IO_WRITABLE

/* ---- io_wait ---- */

_Static_assert(READABLE == AB_POLL_IN && WRITABLE == AB_POLL_OUT && PRIORITY == AB_POLL_PRI &&
                   READABLE == POLLIN && WRITABLE == POLLOUT && PRIORITY == POLLPRI,
               "Ruby, poll(2) and the poller have the same masks");

/* What a poll has found; a hang-up or an error ends every wait. */
static int ready_events(const struct pollfd *item) {
  return item->revents & (POLLHUP | POLLERR | POLLNVAL) ? item->events
                                                        : item->revents & item->events;
}

static int poll_now(int fd, int events) {
  struct pollfd item = {.fd = fd, .events = (short)events};
  int count;
  do count = poll(&item, 1, 0);
  while (count < 0 && errno == EINTR);
  if (count < 0) rb_sys_fail("poll");
  return count == 0 ? 0 : ready_events(&item);
}

typedef struct blocking_poll {
  struct pollfd item;
  int timeout;
} blocking_poll;

static void *poll_without_gvl(void *arg) {
  blocking_poll *wait = arg;
  wait->item.revents = 0;
  poll(&wait->item, 1, wait->timeout);
  return NULL;
}

/* In a forked child: waits as plain Ruby does. Signals are handled and the wait continues. */
static int poll_blocking(int fd, int events, bool forever, ab_nsec timeout) {
  ab_nsec deadline = forever ? 0 : ab__deadline_after(timeout);
  blocking_poll wait = {{.fd = fd, .events = (short)events}, -1};
  for (;;) {
    if (!forever) {
      ab_nsec now = ab_clock_monotonic();
      ab_nsec left = now < deadline ? (deadline - now) / AB_NSEC_PER_MS + 1 : 0;
      wait.timeout = left > INT_MAX ? INT_MAX : (int)left;
    }
    rb_thread_call_without_gvl(poll_without_gvl, &wait, RUBY_UBF_IO, NULL);
    if (wait.item.revents != 0) return ready_events(&wait.item);
    if (!forever && ab_clock_monotonic() >= deadline) return 0;
  }
}

static int checked_events(VALUE value) {
  int events = NUM2INT(value);
  if (events == 0 || (events & ~(READABLE | PRIORITY | WRITABLE)) != 0)
    rb_raise(rb_eArgError, "events must be a mask of IO::READABLE, IO::PRIORITY and IO::WRITABLE");
  return events;
}

/* @!method io_wait(io, events, timeout = nil)
 * Waits until the IO is ready. Returns the mask of its `events`, or false after `timeout`
 * seconds, by default those of IO#timeout; 0 only asks. */
static VALUE sched_io_wait(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 2, 3);
  ab_loop *loop = ab__loop_get(self);
  VALUE io = rb_io_get_io(argv[0]);
  int events = checked_events(argv[1]), got;
  /* IO#wait_readable and the like pass nil if they were given none. */
  VALUE limit = argc == 3 && !NIL_P(argv[2]) ? argv[2] : ab__io_timeout(io);
  ab_nsec timeout = 0;
  bool forever = !ab__timeout_of(limit, &timeout);
  int fd = rb_io_descriptor(io);
  if (!forever && timeout == 0) {
    got = poll_now(fd, events);
  } else if (AB_UNLIKELY(ab__loop_forked(loop))) {
    got = poll_blocking(fd, events, forever, timeout);
  } else {
    ab__loop_check(loop);
    got = (int)ab__fd_wait(loop, fd, io, (uint32_t)events,
                           forever ? 0 : ab__deadline_after(timeout), AB_WAIT_IO, io);
  }
  return got == 0 ? Qfalse : INT2FIX(got);
}

/* ---- io_read, io_write ---- */

#ifdef HAVE_RUBY_IO_BUFFER_H

static bool has_flag(int fd, int flag) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & flag) != 0;
}

/* True for every socket, and for IO.popen's pair of pipes. */
static bool maybe_socket(VALUE io) {
#ifdef HAVE_RB_IO_MODE
  return (rb_io_mode(io) & FMODE_DUPLEX) != 0;
#else
  return (RFILE(io)->fptr->mode & FMODE_DUPLEX) != 0;
#endif
}

static ssize_t result_of(ssize_t count) {
  return count < 0 ? -errno : count;
}

/* Never again: the kernel has no such call, or not for this kind of file. */
static bool is_refused(ssize_t count) {
  return count < 0 &&
         (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == ESPIPE);
}

/* Files return EAGAIN too, if a page is not at hand. lseek is the cheapest call that tells. */
static bool has_peer(int fd) {
  return lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE;
}

/* The arguments of a hook, in one order for every version of Ruby. */
typedef struct transfer {
  ab_loop *loop;
  VALUE self, io, buffer;
  size_t length, offset;
  off_t from;      /* io_pread and io_pwrite */
  bool positional; /* uses `from` */
  bool write;
} transfer;

typedef struct attempt {
  const transfer *transfer;
  int fd;
  off_t from; /* -1: the file's position */
  size_t done;
  char *base;
  size_t size;
} attempt;

static ssize_t plain_read(const attempt *a) {
  return result_of(a->from < 0 ? read(a->fd, a->base, a->size)
                               : pread(a->fd, a->base, a->size, a->from));
}

static ssize_t plain_write(const attempt *a, size_t size) {
  return result_of(a->from < 0 ? write(a->fd, a->base, size)
                               : pwrite(a->fd, a->base, size, a->from));
}

static char *bytes_of_attempt(void *ctx, size_t done, size_t *size);

/* On a thread, while the fiber waits. */
static ssize_t ask_disk(const attempt *a) {
  ab_file_op op = {.io = a->transfer->io,
                   .write = a->transfer->write,
                   .from = a->from,
                   .bytes = bytes_of_attempt,
                   .ctx = (void *)(uintptr_t)a};
  ssize_t result = ab__file_transfer(a->transfer->loop, &op);
  if (result != AB_FILE_IN_PLACE) return result;
  return a->transfer->write ? plain_write(a, a->size) : plain_read(a);
}

/* Each returns bytes or -errno. */
static ssize_t try_read(const attempt *a) {
  if (a->from < 0 && maybe_socket(a->transfer->io)) {
    ssize_t count = ab_os_recv_now(a->fd, a->base, a->size);
    if (count >= 0 || errno != ENOTSOCK) return result_of(count);
  }
  ssize_t count = ab_os_read_cached(a->fd, a->base, a->size, a->from);
  if (count >= 0) return count;
  if (!is_refused(count) && errno != EAGAIN) return -errno;
  if (errno == EAGAIN && has_peer(a->fd)) return -EAGAIN;
  if (ab_file_kind(a->fd) >= AB_FILE_DISK) return ask_disk(a);
  /* Some files of /proc have a peer, too. */
  if (!has_flag(a->fd, O_NONBLOCK) && poll_now(a->fd, READABLE) == 0) return -EAGAIN;
  return plain_read(a);
}

/* Is this a write that the page cache takes without waiting? */
static bool is_quick_write(const attempt *a, enum ab_file_kind kind) {
  if (kind == AB_FILE_MEMORY) return true;
  return kind == AB_FILE_DISK && a->size <= IN_PLACE_WRITE_MAX &&
         !ab_os_writes_through(fcntl(a->fd, F_GETFL));
}

static ssize_t try_write(const attempt *a) {
  VALUE io = a->transfer->io;
  if (a->from < 0 && maybe_socket(io)) {
    ssize_t count = ab_os_send_now(a->fd, a->base, a->size);
    if (count >= 0 || errno != ENOTSOCK) return result_of(count);
  }
  if (AB_UNLIKELY(ab__file_busy(a->transfer->loop, io))) return ask_disk(a);
  ssize_t count = ab_os_write_cached(a->fd, a->base, a->size, a->from);
  if (count >= 0) return count;
  if (!is_refused(count) && errno != EAGAIN) return -errno;
  if (errno == EAGAIN && has_peer(a->fd)) return -EAGAIN;
  enum ab_file_kind kind = ab_file_kind(a->fd);
  if (kind != AB_FILE_STREAM)
    return is_quick_write(a, kind) ? plain_write(a, a->size) : ask_disk(a);
  size_t size = a->size;
  if (!has_flag(a->fd, O_NONBLOCK)) {
    if (poll_now(a->fd, WRITABLE) == 0) return -EAGAIN;
    if (size > BLOCKING_WRITE_MAX) size = BLOCKING_WRITE_MAX;
  }
  return plain_write(a, size);
}

/* (io, buffer, length) on 3.1, (.., length, offset) up to interface 3, (.., offset, length) on 4;
 * pread and pwrite have the file's offset before them, but on 3.1 after (.., length, from). */
static transfer unpack(int argc, const VALUE *argv, VALUE self, bool positional, bool write) {
  transfer t = {.loop = ab__loop_get(self),
                .self = self,
                .io = rb_io_get_io(argv[0]),
                .buffer = argv[1],
                .positional = positional,
                .write = write};
  const VALUE *rest = argv + 2;
  if (positional && AB_SCHEDULER_INTERFACE == 1 && argc == 4) {
    t.length = NUM2SIZET(rest[0]);
    t.from = NUM2OFFT(rest[1]);
    return t;
  }
  if (positional) {
    t.from = NUM2OFFT(*rest++);
    argc--;
  }
  size_t first = NUM2SIZET(rest[0]), second = argc > 3 ? NUM2SIZET(rest[1]) : 0;
#if AB_SCHEDULER_INTERFACE >= 4
  t.offset = first;
  t.length = second;
#else
  t.length = first;
  t.offset = second;
#endif
  return t;
}

/* The buffer's bytes after the offset; fetched again after each wait, since it may have moved. */
static char *bytes(const transfer *t, size_t offset, size_t *size) {
  char *base;
  if (t->write) {
    const void *ptr;
    rb_io_buffer_get_bytes_for_reading(t->buffer, &ptr, size);
    base = (char *)(uintptr_t)ptr;
  } else {
    void *ptr;
    rb_io_buffer_get_bytes_for_writing(t->buffer, &ptr, size);
    base = ptr;
  }
  if (offset > *size) rb_raise(rb_eArgError, "the offset is behind the end of the buffer");
  *size -= offset;
  return base + offset;
}

static char *bytes_of_attempt(void *ctx, size_t done, size_t *size) {
  const attempt *a = ctx;
  char *base = bytes(a->transfer, a->transfer->offset + a->done + done, size);
  if (*size > a->size - done) *size = a->size - done;
  return base;
}

/* `done` bytes have been moved before. */
static ssize_t try_once(const transfer *t, char *base, size_t size, size_t done) {
  attempt a = {.transfer = t,
               .fd = rb_io_descriptor(t->io),
               .from = t->positional ? t->from + (off_t)done : -1,
               .done = done,
               .base = base,
               .size = size};
  ssize_t result;
  do result = t->write ? try_write(&a) : try_read(&a);
  while (result == -EINTR);
  if (result == -EAGAIN)
    ab__fd_exhausted(t->loop, a.fd, t->write ? AB_POLL_OUT : AB_POLL_IN);
  else if (result > 0 && (size_t)result < size && !t->write && !t->positional)
    ab__fd_drained(t->loop, a.fd, t->io);
  return result;
}

/* Parks until the IO is ready; honours IO#timeout. */
static void wait_for(const transfer *t) {
  VALUE argv[3] = {t->io, INT2FIX(t->write ? WRITABLE : READABLE), Qnil};
  /* A user's class may want to see each wait. */
  bool is_own = RBASIC_CLASS(t->self) == t->loop->own_class;
  VALUE got = is_own ? sched_io_wait(3, argv, t->self)
                     : rb_funcallv(t->self, rb_intern("io_wait"), 3, argv);
  if (got != Qfalse) return;
#ifdef HAVE_RB_IO_TIMEOUT
  rb_raise(rb_eIOTimeoutError, "Blocking operation timed out!");
#endif
}

static bool would_block(ssize_t result) {
  return result == -EAGAIN || result == -EWOULDBLOCK;
}

/* Ruby waits without a time limit (3.3, 3.4). Where it would only call again, this file waits. */
static bool must_wait(const transfer *t, ssize_t result) {
  if (!would_block(result)) return false;
  enum ab_caller caller = ab_callers_ask(&t->loop->callers);
  if (caller == AB_CALLER_WAITS && !t->write && !t->positional) return true;
  return caller != AB_CALLER_NONBLOCK && !NIL_P(ab__io_timeout(t->io));
}

/* A read that would find nothing is skipped if the caller would wait afterwards. */
static void wait_where_drained(const transfer *t) {
  if (t->write || t->positional || !ab__fd_is_drained(t->loop, rb_io_descriptor(t->io), t->io) ||
      ab__loop_forked(t->loop))
    return;
  if (must_wait(t, -EAGAIN)) wait_for(t);
}

#if AB_SCHEDULER_INTERFACE >= 4

/* One attempt of at most `length` bytes. */
static VALUE perform(const transfer *t) {
  wait_where_drained(t);
  for (;;) {
    size_t size;
    char *base = bytes(t, t->offset, &size);
    if (t->length < size) size = t->length;
    if (size == 0) return INT2FIX(0);
    ssize_t result = try_once(t, base, size, 0);
    if (!must_wait(t, result)) return SSIZET2NUM(result);
    wait_for(t);
  }
}

#else

/* `length` is a minimum, waited for, up to an end or an error; 0: one attempt. */
static VALUE perform(const transfer *t) {
  size_t done = 0, size;
  wait_where_drained(t);
  for (;;) {
    char *base = bytes(t, t->offset + done, &size);
    if (t->length > done && t->length - done > size)
      rb_raise(rb_eArgError, "the length is behind the end of the buffer");
    if (size == 0) return SIZET2NUM(done);
    ssize_t result = try_once(t, base, size, done);
    if (must_wait(t, result) || (t->length > 0 && would_block(result))) {
      wait_for(t);
      continue;
    }
    if (result < 0) return done > 0 ? SIZET2NUM(done) : SSIZET2NUM(result);
    done += (size_t)result;
    if (result == 0 || done >= t->length) return SIZET2NUM(done);
  }
}

#endif

static VALUE move(int argc, const VALUE *argv, VALUE self, bool positional, bool write) {
  int least = positional ? 4 : 3;
  rb_check_arity(argc, least, least + 1);
  transfer t = unpack(argc, argv, self, positional, write);
  return perform(&t);
}

/* @!method io_read(io, buffer, length, offset = 0)
 * Reads into the IO::Buffer: bytes, 0 at the end, or -errno. Ruby 4.1: offset before length. */
static VALUE sched_io_read(int argc, VALUE *argv, VALUE self) {
  return move(argc, argv, self, false, false);
}

/* @!method io_write(io, buffer, length, offset = 0)
 * Writes from the IO::Buffer. Returns the number of bytes or -errno. */
static VALUE sched_io_write(int argc, VALUE *argv, VALUE self) {
  return move(argc, argv, self, false, true);
}

/* @!method io_pread(io, buffer, from, length, offset)
 * Reads from the file's offset `from`. */
static VALUE sched_io_pread(int argc, VALUE *argv, VALUE self) {
  return move(argc, argv, self, true, false);
}

/* @!method io_pwrite(io, buffer, from, length, offset)
 * Writes to the file's offset `from`. */
static VALUE sched_io_pwrite(int argc, VALUE *argv, VALUE self) {
  return move(argc, argv, self, true, true);
}

#endif

/* ---- io_select ---- */

typedef struct selection {
  VALUE lists[3];         /* of IOs: readers, writers, exceptional */
  ab_interest *interests; /* one for each member of the lists, in their order */
  size_t count;
} selection;

static const int select_events[3] = {READABLE, WRITABLE, PRIORITY};

/* Copies the user's list, which may change while we wait. */
static VALUE io_list(VALUE list) {
  if (NIL_P(list)) return rb_ary_new();
  return rb_ary_dup(rb_convert_type(list, T_ARRAY, "Array", "to_ary"));
}

static bool has_buffered(VALUE io) {
  rb_io_t *fptr;
  GetOpenFile(io, fptr);
  return rb_io_read_pending(fptr) != 0;
}

static bool select_now(selection *s) {
  bool any = false;
  size_t index = 0;
  for (int kind = 0; kind < 3; kind++) {
    for (long i = 0; i < RARRAY_LEN(s->lists[kind]); i++) {
      ab_interest *interest = &s->interests[index++];
      VALUE io = rb_io_get_io(RARRAY_AREF(s->lists[kind], i));
      interest->io = io;
      interest->want = (uint32_t)select_events[kind];
      if ((kind == 0 && has_buffered(io)) ||
          poll_now(rb_io_descriptor(io), select_events[kind]) != 0)
        interest->got = interest->want;
      any |= interest->got != 0;
    }
  }
  return any;
}

static VALUE select_result(const selection *s) {
  size_t ready_count = 0, index = 0;
  for (size_t i = 0; i < s->count; i++) ready_count += s->interests[i].got != 0;
  if (ready_count == 0) return Qnil;
  VALUE result = rb_ary_new_capa(3);
  for (int kind = 0; kind < 3; kind++) {
    VALUE ready = rb_ary_new();
    for (long i = 0; i < RARRAY_LEN(s->lists[kind]); i++)
      if (s->interests[index++].got != 0) rb_ary_push(ready, RARRAY_AREF(s->lists[kind], i));
    rb_ary_push(result, ready);
  }
  return result;
}

/* @!method io_select(readers, writers = nil, exceptional = nil, timeout = nil)
 * As IO.select, without blocking other fibers. Ruby 3.1 does not call it from IO.select. */
static VALUE sched_io_select(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 4);
  if (AB_UNLIKELY(ab__loop_forked(ab__loop_get(self))))
    return ab__in_forked_child("io_select", argc, argv);
  ab_loop *loop = ab_loop_of(self);
  ab_nsec timeout = 0;
  bool forever = !ab__timeout_of(argc == 4 ? argv[3] : Qnil, &timeout);
  selection s = {.count = 0};
  for (int i = 0; i < 3; i++) {
    s.lists[i] = io_list(i < argc ? argv[i] : Qnil);
    s.count += (size_t)RARRAY_LEN(s.lists[i]);
    OBJ_FREEZE(s.lists[i]);
  }
  VALUE memory = Qnil, lists = rb_ary_new_from_values(3, s.lists);
  if (s.count > 0) s.interests = ALLOCV_N(ab_interest, memory, s.count);
  for (size_t i = 0; i < s.count; i++) s.interests[i] = (ab_interest){.io = Qnil};
  if (!select_now(&s) && (forever || timeout > 0))
    ab__fd_select(loop, s.interests, s.count, forever ? 0 : ab__deadline_after(timeout), lists);
  VALUE result = select_result(&s);
  ALLOCV_END(memory);
  RB_GC_GUARD(lists);
  return result;
}

/* @!method io_close(fd)
 * Ends the waits for the descriptor by an IOError. Returns false: Ruby closes it. */
static VALUE sched_io_close(VALUE self, VALUE fd) {
  ab_loop *loop = ab__loop_get(self);
  if (!loop->closed && !ab__loop_forked(loop)) ab__fd_closed(loop, NUM2INT(fd));
  return Qfalse;
}

#ifdef HAVE_RUBY_IO_BUFFER_H
static VALUE use_buffer(VALUE unused) {
  VALUE klass = rb_path2class("IO::Buffer");
  return rb_funcall(klass, rb_intern("new"), 1, INT2FIX(0));
}

static VALUE restore_warning(VALUE enabled) {
  return rb_funcall(rb_path2class("Warning"), rb_intern("[]="), 2,
                    ID2SYM(rb_intern("experimental")), enabled);
}

/* Ruby warns once of IO::Buffer, at its first use, which would be inside a hook. */
static void spare_user_the_warning(void) {
  VALUE experimental = ID2SYM(rb_intern("experimental"));
  VALUE enabled = rb_funcall(rb_path2class("Warning"), rb_intern("[]"), 1, experimental);
  rb_funcall(rb_path2class("Warning"), rb_intern("[]="), 2, experimental, Qfalse);
  rb_ensure(use_buffer, Qnil, restore_warning, enabled);
}
#endif

void ab__init_sched_io(VALUE klass) {
  rb_define_method(klass, "io_wait", sched_io_wait, -1);
  rb_define_method(klass, "io_select", sched_io_select, -1);
  rb_define_method(klass, "io_close", sched_io_close, 1);
#ifdef HAVE_RUBY_IO_BUFFER_H
  rb_define_method(klass, "io_read", sched_io_read, -1);
  rb_define_method(klass, "io_write", sched_io_write, -1);
  rb_define_method(klass, "io_pread", sched_io_pread, -1);
  rb_define_method(klass, "io_pwrite", sched_io_pwrite, -1);
  spare_user_the_warning();
#endif
}
