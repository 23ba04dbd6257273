/* The output queue of a connection: copies small pieces, borrows large ones and files, and gives
 * out what is pending, in order, as slices for writev. It does no I/O. Copies live in chunks
 * that are recycled: the steady state allocates nothing. */
#ifndef AB_OUTBOX_OUTBOX_H
#define AB_OUTBOX_OUTBOX_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/mem.h"

#define AB_OUTBOX_CHUNK_SIZE 4096    /* bytes of a usual chunk, header included */
#define AB_OUTBOX_IOV_MAX    64      /* slices that one ab_outbox_next hands out */
#define AB_OUTBOX_BYTES_MAX  1048576 /* bytes that one ab_outbox_next hands out */

typedef struct ab_outbox ab_outbox;
typedef struct ab_outbox_pool ab_outbox_pool;

/* Called once for each owner that is not NULL when its slice has been written or dropped, in any
 * function that takes the outbox. It must not call back into it. */
typedef void (*ab_outbox_release)(void *ctx, void *owner);

enum ab_outbox_op {
  AB_OUTBOX_IDLE,  /* nothing is pending */
  AB_OUTBOX_YIELD, /* output is pending, but ab_outbox_yield asked to wait once */
  AB_OUTBOX_WRITE, /* iov[0 .. iov_count - 1] is to be written next */
  AB_OUTBOX_FILE,  /* file_fd from file_offset, file_len bytes, is to be sent next */
  AB_OUTBOX_CLOSE  /* closed, and all output has been written */
};

/* What comes next; filled by ab_outbox_next, valid until the outbox is next changed. */
typedef struct ab_outbox_next_op {
  enum ab_outbox_op op;
  bool file_follows; /* behind the last iov entry */
  int iov_count;
  size_t bytes; /* of all iov entries */
  int file_fd;
  uint64_t file_offset, file_len;
  struct iovec iov[AB_OUTBOX_IOV_MAX];
} ab_outbox_next_op;

enum ab_flush_reason { AB_FLUSH_WRITTEN, AB_FLUSH_DRAINED };
typedef void (*ab_outbox_flushed)(void *arg, enum ab_flush_reason reason);

/* A pool of outboxes and chunks, for one thread at a time. Borrows `mem`; `release` gets `ctx`.
 * Keeps at most `spare_outboxes` and `spare_chunks` for reuse. Returns NULL without memory. */
ab_outbox_pool *ab_outbox_pool_init(const ab_mem *mem, ab_outbox_release release, void *ctx,
                                    size_t spare_outboxes, size_t spare_chunks);
/* From now on a chunk takes `room` bytes, at least 1. No chunk may have been taken yet. */
void ab_outbox_pool_set_room(ab_outbox_pool *pool, size_t room);
/* Bytes of memory that the pool's outboxes and chunks take, a long copy counted as one chunk. */
size_t ab_outbox_pool_memory(const ab_outbox_pool *pool);
/* All outboxes must have been given back. */
void ab_outbox_pool_fini(ab_outbox_pool *pool);

/* An empty, open outbox, given back with ab_outbox_fini; NULL without memory. */
ab_outbox *ab_outbox_init(ab_outbox_pool *pool);
/* Closes, drains, and gives the outbox back to its pool. */
void ab_outbox_fini(ab_outbox *outbox);

/* Copies. Returns AB_OK, AB_ENOMEM (nothing was queued) or AB_ECLOSED. */
int ab_outbox_write(ab_outbox *outbox, const char *ptr, size_t len) AB_WARN_UNUSED;

/* Gets memory for `slices` more slices and `bytes` of contiguous copies, so that these calls do
 * not fail for want of it. Returns AB_OK, or AB_ENOMEM, also for more than a chunk. */
#define AB_OUTBOX_PREPARE_MAX 2048
int ab_outbox_prepare(ab_outbox *outbox, uint32_t slices, size_t bytes) AB_WARN_UNUSED;

/* Takes back the last `n` bytes queued, none of them shifted or marked. Releases their owners. */
void ab_outbox_take_back(ab_outbox *outbox, uint64_t n);

/* Borrows ptr[0 .. len - 1] until `owner` is released. Returns AB_OK, AB_ECLOSED, AB_ENOMEM, or
 * AB_EINVAL if 2^63 bytes would be pending; on an error the owner stays the caller's. An empty
 * slice releases its owner at once. */
int ab_outbox_borrow(ab_outbox *outbox, const char *ptr, size_t len, void *owner) AB_WARN_UNUSED;

/* Queues `len` bytes of `fd` from `offset`; borrows fd until `owner` is released. Returns as
 * ab_outbox_borrow does; AB_EINVAL also for a negative fd or an end beyond 2^63 - 1. */
int ab_outbox_file(ab_outbox *outbox, int fd, uint64_t offset, uint64_t len,
                   void *owner) AB_WARN_UNUSED;

/* Makes the next ab_outbox_next answer AB_OUTBOX_YIELD once if output is pending, so that more
 * can gather. A flush, drain or close cancels it. */
void ab_outbox_yield(ab_outbox *outbox);

/* Calls fn(arg) once everything queued before has been written or dropped; at once if nothing is
 * pending. Marks fire in order. fn may do anything but end the outbox. Returns AB_OK, or
 * AB_ENOMEM: fn is not called. Allowed after close. */
int ab_outbox_flush(ab_outbox *outbox, ab_outbox_flushed fn, void *arg) AB_WARN_UNUSED;

/* What to write next: memory up to the two limits, never past the next file, or the file at the
 * front. Fills only what it uses of `next->iov`. Idempotent until the outbox changes (except
 * AB_OUTBOX_YIELD). */
void ab_outbox_next(ab_outbox *outbox, ab_outbox_next_op *next);

typedef struct ab_outbox_slice {
  const char *ptr; /* NULL for a file */
  uint64_t len;
  void *owner; /* of borrowed bytes or a file; NULL for copies */
  int fd;
  uint64_t offset; /* in the file */
} ab_outbox_slice;

/* Shows pending slice `index`, numbered as by ab_outbox_next. Returns false behind the last. */
bool ab_outbox_slice_at(const ab_outbox *outbox, uint32_t index, ab_outbox_slice *slice);

/* Returns the owner of a borrowed slice for another pool, and may set slice->fd to another
 * descriptor of the file; NULL if that is not possible. */
typedef void *(*ab_outbox_adopt)(void *ctx, ab_outbox_slice *slice);

/* Moves all that is pending to the end of `to`, without a copy. `adopt` gives the owner that
 * `to` will release for each borrowed slice; that of `from` is released. Flush marks of `from`
 * fire as written. The pools share nothing afterwards (`from` gets spare chunks in exchange),
 * but each must be able to free the other's memory. Returns AB_OK, or, with nothing changed,
 * AB_ENOMEM (also if `adopt` refused), AB_ECLOSED or AB_EINVAL. */
int ab_outbox_move(ab_outbox *from, ab_outbox *to, ab_outbox_adopt adopt, void *ctx) AB_WARN_UNUSED;

/* Moves the first `len` pending bytes to the end of `to`, an outbox of the same pool. Files and
 * long pieces that an owner lends are not copied: it is released when its last byte has been
 * written or dropped, in whichever outbox. Returns AB_OK, AB_EINVAL (too many), AB_ECLOSED, or
 * AB_ENOMEM: some of them have been moved. */
int ab_outbox_pass(ab_outbox *from, ab_outbox *to, size_t len) AB_WARN_UNUSED;

/* Drops `n` written bytes at the front, releases owners, fires marks. AB_EINVAL: too many. */
int ab_outbox_shift(ab_outbox *outbox, uint64_t n);

/* Bytes of lists that have outgrown the outbox; the rest is in ab_outbox_pool_memory. */
size_t ab_outbox_list_memory(const ab_outbox *outbox);
/* Bytes that can be copied before another chunk is taken. */
size_t ab_outbox_room(const ab_outbox *outbox);
/* Slices that are pending. */
uint32_t ab_outbox_slices(const ab_outbox *outbox);
/* Files among them; and in all outboxes of a pool, where parts of one that were passed on count
 * once. */
uint32_t ab_outbox_files(const ab_outbox *outbox);
size_t ab_outbox_pool_files(const ab_outbox_pool *pool);
/* Bytes that have not been shifted. */
uint64_t ab_outbox_pending(const ab_outbox *outbox);
/* Bytes ever queued; wraps around. */
uint64_t ab_outbox_queued(const ab_outbox *outbox);

/* No more output; what is pending still comes out, then AB_OUTBOX_CLOSE. Idempotent. */
void ab_outbox_close(ab_outbox *outbox);
bool ab_outbox_closed(const ab_outbox *outbox);

/* Drops all that is pending, returns its bytes. What callbacks of its marks queue stays. */
uint64_t ab_outbox_drain(ab_outbox *outbox);

#endif
