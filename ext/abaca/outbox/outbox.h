/* The output queue of a connection: it copies small pieces, borrows large ones and files, and gives
 * out what is pending as a list of slices for writev.
 *
 * An outbox does no I/O. Copied bytes live in chunks that are recycled through the pool, so the
 * steady state allocates nothing. All slices leave in the order in which they came.
 */
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

/* Called once for each borrowed owner that is not NULL when its slice has been written or dropped.
 * It may be called from any function that takes the outbox; it must not call back into it. */
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
  int iov_count;
  size_t bytes; /* of all iov entries */
  int file_fd;
  uint64_t file_offset, file_len;
  struct iovec iov[AB_OUTBOX_IOV_MAX];
} ab_outbox_next_op;

/* Why a flush mark fired. */
enum ab_flush_reason { AB_FLUSH_WRITTEN, AB_FLUSH_DRAINED };
typedef void (*ab_outbox_flushed)(void *arg, enum ab_flush_reason reason);

/* A pool of outboxes and chunks, for one thread at a time. Borrows `mem`; `release` gets `ctx` as
 * its first argument. Keeps at most `spare_outboxes` and `spare_chunks` for reuse; with one of
 * each, the steady state of one busy outbox allocates nothing. Returns NULL without memory. */
ab_outbox_pool *ab_outbox_pool_init(const ab_mem *mem, ab_outbox_release release, void *ctx,
                                    size_t spare_outboxes, size_t spare_chunks);
/* From now on a chunk takes `room` bytes, at least 1. No chunk may have been taken yet. */
void ab_outbox_pool_set_room(ab_outbox_pool *pool, size_t room);
/* Bytes of memory that the pool's outboxes and chunks take, a long copy counted as one chunk. */
size_t ab_outbox_pool_memory(const ab_outbox_pool *pool);
/* All outboxes must have been given back. */
void ab_outbox_pool_fini(ab_outbox_pool *pool);

/* An empty, open outbox; NULL without memory. The caller gives it back with ab_outbox_fini.
 */
ab_outbox *ab_outbox_init(ab_outbox_pool *pool);
/* Closes, drops what is pending (owners are released, flush marks fire with AB_FLUSH_DRAINED) and
 * gives the outbox back to its pool. */
void ab_outbox_fini(ab_outbox *outbox);

/* Copies. Returns AB_OK, AB_ENOMEM (nothing was queued) or AB_ECLOSED. */
int ab_outbox_write(ab_outbox *outbox, const char *ptr, size_t len) AB_WARN_UNUSED;

/* Gets memory for `slices` more slices and `bytes` of contiguous copies: calls that need no more do
 * not fail for want of memory afterwards. Returns AB_OK, or AB_ENOMEM, also for more than a chunk.
 */
#define AB_OUTBOX_PREPARE_MAX 2048
int ab_outbox_prepare(ab_outbox *outbox, uint32_t slices, size_t bytes) AB_WARN_UNUSED;

/* Takes back the `n` bytes that were queued last, none of which may have been shifted or flushed by
 * a mark. Owners of borrowed bytes among them are released. */
void ab_outbox_take_back(ab_outbox *outbox, uint64_t n);

/* Borrows ptr[0 .. len - 1] until `owner` is released. The bytes must not change. Returns AB_OK,
 * AB_ECLOSED, AB_ENOMEM, or AB_EINVAL if 2^63 bytes or more would be pending. On any error the
 * owner is NOT released: it stays the caller's. An empty slice releases its owner at once. */
int ab_outbox_borrow(ab_outbox *outbox, const char *ptr, size_t len, void *owner) AB_WARN_UNUSED;

/* Queues `len` bytes of `fd` from `offset`; borrows fd until `owner` is released. Returns as
 * ab_outbox_borrow does; AB_EINVAL also for a negative fd or an end beyond 2^63 - 1. */
int ab_outbox_file(ab_outbox *outbox, int fd, uint64_t offset, uint64_t len,
                   void *owner) AB_WARN_UNUSED;

/* The next ab_outbox_next answers AB_OUTBOX_YIELD once if output is pending then, so that more can
 * gather. A flush, drain or close cancels it; a closed outbox ignores it. */
void ab_outbox_yield(ab_outbox *outbox);

/* Calls fn(arg) once everything queued before has been written or dropped; at once if nothing is
 * pending. Marks fire in the order in which they were set. fn may do anything with the outbox
 * except end it with ab_outbox_fini. Returns AB_OK, or AB_ENOMEM: then fn will not be called.
 * Allowed after close. */
int ab_outbox_flush(ab_outbox *outbox, ab_outbox_flushed fn, void *arg) AB_WARN_UNUSED;

/* What to write next: memory up to the two limits above and never past the next file, or the file
 * at the front. Adjacent bytes of one chunk are one entry. Fills only the part of `next->iov` that
 * it uses. Idempotent until the outbox is changed (AB_OUTBOX_YIELD is answered only once). */
void ab_outbox_next(ab_outbox *outbox, ab_outbox_next_op *next);

/* A pending slice, as ab_outbox_slice_at shows it. */
typedef struct ab_outbox_slice {
  const char *ptr; /* NULL for a file */
  uint64_t len;
  void *owner; /* of borrowed bytes or a file; NULL for copies */
  int fd;
  uint64_t offset; /* in the file */
} ab_outbox_slice;

/* Shows the pending slice number `index`, from 0 on; a slice of ab_outbox_next has the same number.
 * Returns false behind the last. */
bool ab_outbox_slice_at(const ab_outbox *outbox, uint32_t index, ab_outbox_slice *slice);

/* Takes over what is borrowed: returns its owner for another pool, and may set slice->fd to another
 * descriptor of the file; NULL if that is not possible. */
typedef void *(*ab_outbox_adopt)(void *ctx, ab_outbox_slice *slice);

/* Moves all that is pending to the end of `to`, without a copy. For each borrowed slice with an
 * owner, `adopt` gives the one that `to` will release; that of `from` is released. Flush marks of
 * `from` fire: for it, the bytes are written. The pools, which may be guarded by different locks,
 * share nothing afterwards; `from` gets spare chunks in exchange. Their allocators must be able to
 * free each other's memory. Returns AB_OK, or AB_ENOMEM (also if `adopt` refused), AB_ECLOSED or
 * AB_EINVAL as for ab_outbox_borrow: then nothing has changed. */
int ab_outbox_move(ab_outbox *from, ab_outbox *to, ab_outbox_adopt adopt, void *ctx) AB_WARN_UNUSED;

/* `n` bytes have been written: drops them from the front, releases owners, fires flush marks in
 * order. Returns AB_OK, or AB_EINVAL (nothing changes) when n exceeds what is pending. */
int ab_outbox_shift(ab_outbox *outbox, uint64_t n);

/* Bytes that the lists of slices and flush marks take where they have outgrown the outbox; the rest
 * of its memory is in ab_outbox_pool_memory. */
size_t ab_outbox_list_memory(const ab_outbox *outbox);

/* Bytes that can be copied before another chunk is taken. */
size_t ab_outbox_room(const ab_outbox *outbox);

/* Slices that are pending. */
uint32_t ab_outbox_slices(const ab_outbox *outbox);

/* Files among them; and in all outboxes of a pool. */
uint32_t ab_outbox_files(const ab_outbox *outbox);
size_t ab_outbox_pool_files(const ab_outbox_pool *pool);

/* Bytes that have not been shifted. */
uint64_t ab_outbox_pending(const ab_outbox *outbox);

/* Bytes ever queued; wraps around. */
uint64_t ab_outbox_queued(const ab_outbox *outbox);

/* No more output; what is pending still comes out, then AB_OUTBOX_CLOSE. Idempotent. */
void ab_outbox_close(ab_outbox *outbox);
bool ab_outbox_closed(const ab_outbox *outbox);

/* Drops all that is pending and returns how many bytes it was. Owners are released, flush marks
 * fire with AB_FLUSH_DRAINED; what their callbacks queue stays. Works on an open outbox too. */
uint64_t ab_outbox_drain(ab_outbox *outbox);

#endif
