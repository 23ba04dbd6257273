/* Reads and writes of files that need the disk, on a thread of a small pool while the fiber waits.
 * The thread has memory and a descriptor of its own, because the fiber may be interrupted, its
 * buffer freed and its IO closed. A read is a pread; the file's position moves on the loop's thread
 * once the fiber has the data. So an abandoned wait loses nothing, and two fibers never get the
 * same bytes. A write cannot do that (O_APPEND): writes of one IO keep the order of their calls. */
#include "rb/scheduler/rb_scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is moved at a time: copying it keeps the loop for a fraction of a millisecond. */
#define CHUNK_MAX ((size_t)1 << 20)
#define ALIGNMENT 4096 /* O_DIRECT requires it */

/* ---- the job ---- */

typedef struct file_job {
  ab_blocking_job job;
  int fd; /* a duplicate */
  bool write;
  off_t from; /* -1: where the file says; only for a write */
  char *memory;
  size_t size;
  ssize_t result; /* bytes or -errno */
} file_job;

/* On the fiber's stack, and the job's owner. */
typedef struct file_wait {
  ab_loop *loop;
  const ab_file_op *op;
  ab_waiter waiter;
  ab_nsec deadline;
  file_job *job; /* while the pool has it */
  char *memory;  /* while it has not; NULL at first */
  ab_list turn;  /* in `writes` */
  ssize_t result;
} file_wait;

static void file_run(ab_blocking_job *job) {
  file_job *file = AB_CONTAINER_OF(job, file_job, job);
  ssize_t count;
  do {
    if (!file->write)
      count = pread(file->fd, file->memory, file->size, file->from);
    else if (file->from < 0)
      count = write(file->fd, file->memory, file->size);
    else
      count = pwrite(file->fd, file->memory, file->size, file->from);
  } while (count < 0 && errno == EINTR);
  file->result = count < 0 ? -errno : count;
}

static void file_fini(ab_blocking_job *job) {
  file_job *file = AB_CONTAINER_OF(job, file_job, job);
  if (file->fd >= 0) close(file->fd);
  free(file->memory);
  free(file);
}

static void file_done(ab_blocking_job *job) {
  file_job *file = AB_CONTAINER_OF(job, file_job, job);
  file_wait *wait = job->owner;
  wait->result = file->result;
  wait->memory = file->memory;
  file->memory = NULL;
  wait->job = NULL;
  ab_loop_wake(wait->loop, &wait->waiter);
}

static bool get_memory(file_wait *wait) {
  if (wait->memory) return true;
  void *memory;
  if (posix_memalign(&memory, ALIGNMENT, CHUNK_MAX) != 0) return false;
  wait->memory = memory;
  return true;
}

/* Hands `size` bytes of the memory to a thread. False if no thread or no descriptor can be had. */
static bool submit(file_wait *wait, int fd, off_t from, size_t size) {
  ab_blocking_pool *pool = ab__loop_pool(wait->loop, AB_POOL_FILES);
  file_job *file = pool ? ab_alloc_zero(&ab_mem_libc, sizeof *file) : NULL;
  if (!file) return false;
  *file = (file_job){.job = {.run = file_run, .done = file_done, .fini = file_fini, .owner = wait},
                     .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
                     .write = wait->op->write,
                     .from = from,
                     .memory = wait->memory,
                     .size = size};
  if (file->fd < 0 || ab_blocking_submit(pool, &file->job) != AB_OK) {
    file->memory = NULL;
    file_fini(&file->job);
    return false;
  }
  wait->memory = NULL;
  wait->job = file;
  return true;
}

static void file_park(file_wait *wait) {
  if (ab_loop_park(wait->loop, &wait->waiter, wait->deadline) != AB_WAKE_TIMEOUT) return;
#ifdef HAVE_RB_IO_TIMEOUT
  rb_raise(rb_eIOTimeoutError, "Blocking operation timed out!");
#endif
}

/* The same, and waits. Returns the IO's descriptor (it must still be open), or -1 for false. */
static int do_in_thread(file_wait *wait, int fd, off_t from, size_t size) {
  if (!submit(wait, fd, from, size)) return -1;
  while (wait->job) file_park(wait);
  return rb_io_descriptor(wait->op->io);
}

/* ---- reading ---- */

static off_t position(const file_wait *wait, int fd) {
  return wait->op->from < 0 ? lseek(fd, 0, SEEK_CUR) : wait->op->from;
}

/* The last read of every file; it needs no disk. */
static bool is_at_end(int fd, off_t from) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && from >= st.st_size;
}

/* Returns bytes, -errno or AB_FILE_IN_PLACE. */
static ssize_t read_file(file_wait *wait) {
  const ab_file_op *op = wait->op;
  int fd = rb_io_descriptor(op->io);
  for (;;) {
    size_t size;
    op->bytes(op->ctx, 0, &size);
    off_t from = position(wait, fd);
    if (from < 0 || is_at_end(fd, from) || !get_memory(wait)) return AB_FILE_IN_PLACE;
    fd = do_in_thread(wait, fd, from, size < CHUNK_MAX ? size : CHUNK_MAX);
    if (fd < 0) return AB_FILE_IN_PLACE;
    if (wait->result < 0) return wait->result;
    /* Another fiber has read this part, or moved the position, meanwhile. */
    if (position(wait, fd) != from) continue;
    char *target = op->bytes(op->ctx, 0, &size);
    size_t count = (size_t)wait->result < size ? (size_t)wait->result : size;
    memcpy(target, wait->memory, count);
    if (op->from < 0) lseek(fd, from + (off_t)count, SEEK_SET);
    return (ssize_t)count;
  }
}

/* ---- writing ---- */

static file_wait *first_writer(const ab_loop *loop, VALUE io) {
  for (const ab_list *node = loop->writes.next; node != &loop->writes; node = node->next) {
    file_wait *wait = AB_CONTAINER_OF(node, file_wait, turn);
    if (wait->op->io == io) return wait;
  }
  return NULL;
}

bool ab__file_busy(const ab_loop *loop, VALUE io) {
  return !ab_list_empty(&loop->writes) && first_writer(loop, io) != NULL;
}

static void take_turn(file_wait *wait) {
  ab_list_append(&wait->loop->writes, &wait->turn);
  while (first_writer(wait->loop, wait->op->io) != wait) file_park(wait);
}

static void end_turn(file_wait *wait) {
  if (ab_list_empty(&wait->turn)) return;
  ab_list_remove(&wait->turn);
  file_wait *next = first_writer(wait->loop, wait->op->io);
  /* It may be the writer whose turn this one gave up waiting for; then it only checks again. */
  if (next && !next->job) ab_loop_wake(wait->loop, &next->waiter);
}

/* Returns bytes, -errno or AB_FILE_IN_PLACE. A file takes everything. */
static ssize_t write_file(file_wait *wait) {
  const ab_file_op *op = wait->op;
  take_turn(wait);
  int fd = rb_io_descriptor(op->io);
  size_t done = 0, size;
  for (;;) {
    const char *source = op->bytes(op->ctx, done, &size);
    if (size == 0) return (ssize_t)done;
    if (size > CHUNK_MAX) size = CHUNK_MAX;
    if (!get_memory(wait)) break;
    memcpy(wait->memory, source, size);
    fd = do_in_thread(wait, fd, op->from < 0 ? -1 : op->from + (off_t)done, size);
    if (fd < 0) break;
    if (wait->result <= 0) return done > 0 ? (ssize_t)done : wait->result;
    done += (size_t)wait->result;
  }
  return done > 0 ? (ssize_t)done : AB_FILE_IN_PLACE;
}

/* ---- both ---- */

static VALUE transfer_body(VALUE arg) {
  file_wait *wait = (file_wait *)arg;
  wait->loop->fd_waits++;
  wait->result = wait->op->write ? write_file(wait) : read_file(wait);
  return Qnil;
}

static VALUE transfer_end(VALUE arg) {
  file_wait *wait = (file_wait *)arg;
  wait->loop->fd_waits--;
  ab_blocking_pool *pool = wait->loop->pools[AB_POOL_FILES];
  if (wait->job && pool) ab_blocking_abandon(pool, &wait->job->job);
  free(wait->memory);
  end_turn(wait);
  return Qnil;
}

/* Exported, but in no header. */
int ruby_thread_has_gvl_p(void);

/* Is waiting possible? IO#pwrite of Ruby 3.3 and 3.4 even calls the hook without the GVL. */
static bool may_wait(const ab_loop *loop) {
  if (!ruby_thread_has_gvl_p()) return false;
  if (loop->closed || ab__loop_forked(loop) || loop->thread != rb_thread_current()) return false;
  return !loop->running || rb_fiber_current() != loop->root;
}

static VALUE path_of(VALUE io) {
#ifdef HAVE_RB_IO_PATH
  return rb_io_path(io);
#else
  return RFILE(io)->fptr->pathv;
#endif
}

/* Ruby source: features are locked by thread, so another fiber would go on without this one. */
static bool is_source(VALUE io) {
  static const char suffix[] = ".rb";
  const long length = sizeof suffix - 1;
  VALUE path = path_of(io);
  return RB_TYPE_P(path, T_STRING) && RSTRING_LEN(path) > length &&
         memcmp(RSTRING_END(path) - length, suffix, (size_t)length) == 0;
}

ssize_t ab__file_transfer(ab_loop *loop, const ab_file_op *op) {
  if (!may_wait(loop) || (!op->write && is_source(op->io))) return AB_FILE_IN_PLACE;
  file_wait wait = {.loop = loop, .op = op};
  ab_nsec timeout;
  if (ab__timeout_of(ab__io_timeout(op->io), &timeout)) wait.deadline = ab__deadline_after(timeout);
  ab_list_init(&wait.turn);
  wait.waiter.kind = AB_WAIT_FILE;
  wait.waiter.object = op->io;
  wait.waiter.fd = rb_io_descriptor(op->io);
  wait.waiter.events = op->write ? AB_POLL_OUT : AB_POLL_IN;
  rb_ensure(transfer_body, (VALUE)&wait, transfer_end, (VALUE)&wait);
  RB_GC_GUARD(wait.waiter.object);
  return wait.result;
}
