/* The queue: copies, borrows and files in, slices out.
 * Invariants: no slice is empty; the slices add up to queued - written; a last slice in the
 * current chunk ends at `pos`. Without slices there is no flush mark, except while marks are
 * fired, and no chunk, except after prepare. State is consistent before a callback runs. */
#include <assert.h>
#include <string.h>

#include "outbox/internal.h"

static_assert(AB_OUTBOX_PREPARE_MAX <= AB__CHUNK_ROOM, "a preparation must fit into one chunk");

static inline ab__slice *slice_at(const ab_outbox *outbox, uint32_t index) {
  return (ab__slice *)outbox->slices.items + index;
}

static inline bool no_slices(const ab_outbox *outbox) {
  return outbox->slices.front == outbox->slices.back;
}

static inline uint64_t pending(const ab_outbox *outbox) {
  return outbox->queued - outbox->written;
}

static inline bool may_queue(const ab_outbox *outbox, uint64_t len) {
  return len <= AB__PENDING_MAX - pending(outbox);
}

static inline int ensure_slices(ab_outbox *outbox, uint32_t count) {
  return ab__deque_ensure(&outbox->slices, outbox->pool->mem, sizeof(ab__slice), outbox->own_slices,
                          count);
}

/* The caller has made room. */
static inline void push_slice(ab_outbox *outbox, ab__slice slice) {
  *slice_at(outbox, outbox->slices.back++) = slice;
  outbox->queued += slice.len;
}

static inline void release_owner(ab_outbox *outbox, void *owner) {
  if (owner) outbox->pool->release(outbox->pool->ctx, owner);
}

/* Lets go of the chunk that takes copies; its slices keep it alive. */
static inline void drop_chunk(ab_outbox *outbox) {
  ab__chunk *chunk = outbox->chunk;
  if (!chunk) return;
  outbox->chunk = NULL;
  outbox->room = 0;
  ab__chunk_unref(outbox->pool, chunk);
}

/* Takes over the caller's reference. */
static inline void set_chunk(ab_outbox *outbox, ab__chunk *chunk, size_t room) {
  drop_chunk(outbox);
  outbox->chunk = chunk;
  outbox->pos = chunk->bytes;
  outbox->room = room;
}

/* True if the next copy into the current chunk only lengthens the last slice. */
static inline bool last_slice_grows(const ab_outbox *outbox) {
  if (no_slices(outbox)) return false;
  const ab__slice *last = slice_at(outbox, outbox->slices.back - 1);
  return last->kind == AB__COPIED && last->owner == outbox->chunk;
}

/* Queues the `len` bytes at pos, which the caller has filled; there is a slot for them. */
static inline void queue_copied(ab_outbox *outbox, size_t len) {
  if (last_slice_grows(outbox)) {
    slice_at(outbox, outbox->slices.back - 1)->len += len;
    outbox->queued += len;
  } else {
    outbox->chunk->refs++;
    push_slice(outbox, (ab__slice){
                           .ptr = outbox->pos,
                           .len = len,
                           .owner = outbox->chunk,
                           .fd = -1,
                           .kind = AB__COPIED,
                       });
  }
  outbox->pos += len;
  outbox->room -= len;
}

static inline void copy_in(ab_outbox *outbox, const char *ptr, size_t len) {
  memcpy(outbox->pos, ptr, len);
  queue_copied(outbox, len);
}

/* Copies into the rest of the chunk, then into new ones. What can fail comes before any change. */
static AB_NOINLINE int write_spanning(ab_outbox *outbox, const char *ptr, size_t len) {
  ab_outbox_pool *pool = outbox->pool;
  size_t head = outbox->room, tail = len - head, room = pool->room;
  size_t count = AB_LIKELY(tail <= room) ? 1 : (tail - 1) / room + 1;
  bool sized = count > AB__SPAN_MAX;
  if (sized) {
    count = 1;
    room = tail;
  }
  ab__chunk *chain = sized ? ab__chunk_take_sized(pool, tail) : ab__chunk_take_chain(pool, count);
  if (!chain) return AB_ENOMEM;
  if (ensure_slices(outbox, (uint32_t)count + 1) != AB_OK) {
    ab__chunk_recycle_chain(pool, chain);
    return AB_ENOMEM;
  }

  if (head > 0) copy_in(outbox, ptr, head);
  ptr += head;
  while (chain) {
    ab__chunk *chunk = chain;
    chain = chunk->next;
    chunk->next = NULL;
    set_chunk(outbox, chunk, room);
    size_t part = tail < room ? tail : room;
    copy_in(outbox, ptr, part);
    ptr += part;
    tail -= part;
  }
  /* A full chunk belongs only to its slices, so it goes when they have gone. */
  if (outbox->room == 0) drop_chunk(outbox);
  return AB_OK;
}

static inline bool is_file(enum ab__slice_kind kind) {
  return kind >= AB__FILE;
}

static inline bool is_shared(enum ab__slice_kind kind) {
  return kind == AB__SHARED || kind == AB__SHARED_FILE;
}

static inline void count_file(ab_outbox *outbox) {
  outbox->files++;
  outbox->pool->files++;
}

/* Slices that share a file count as one in the pool. */
static void unshare(ab_outbox *outbox, enum ab__slice_kind kind, ab__share *share) {
  if (--share->refs > 0) return;
  void *owner = share->owner;
  if (is_file(kind)) outbox->pool->files--;
  ab_free(outbox->pool->mem, share);
  release_owner(outbox, owner);
}

/* Lets go of what a removed slice pointed at. */
static inline void let_go(ab_outbox *outbox, enum ab__slice_kind kind, void *owner) {
  if (kind == AB__COPIED) {
    ab__chunk_unref(outbox->pool, owner);
    return;
  }
  if (is_file(kind)) outbox->files--;
  if (is_shared(kind)) {
    unshare(outbox, kind, owner);
    return;
  }
  if (kind == AB__FILE) outbox->pool->files--;
  release_owner(outbox, owner);
}

static void drop_slice(ab_outbox *outbox) {
  ab__slice *slot = slice_at(outbox, outbox->slices.front);
  void *owner = slot->owner;
  slot->owner = NULL;
  ab__deque_drop_front(&outbox->slices);
  let_go(outbox, slot->kind, owner);
}

static inline void shorten_front(ab_outbox *outbox, uint64_t len) {
  ab__slice *slice = slice_at(outbox, outbox->slices.front);
  slice->len -= len;
  if (is_file(slice->kind))
    slice->offset += len;
  else
    slice->ptr += len;
}

/* Fires, in order, the marks that `written` has reached. A callback may change the outbox. */
static void fire_marks(ab_outbox *outbox, enum ab_flush_reason reason) {
  while (ab__deque_count(&outbox->marks) > 0) {
    ab__mark *first = (ab__mark *)outbox->marks.items + outbox->marks.front;
    if ((int64_t)(outbox->written - first->threshold) < 0) return;
    ab__mark mark = *first;
    ab__deque_drop_front(&outbox->marks);
    mark.fn(mark.arg, reason);
  }
}

static int queue_borrowed(ab_outbox *outbox, ab__slice slice) {
  if (outbox->closed) return AB_ECLOSED;
  if (slice.len == 0) {
    release_owner(outbox, slice.owner);
    return AB_OK;
  }
  if (!may_queue(outbox, slice.len)) return AB_EINVAL;
  if (ensure_slices(outbox, 1) != AB_OK) return AB_ENOMEM;
  push_slice(outbox, slice);
  if (slice.kind == AB__FILE) count_file(outbox);
  return AB_OK;
}

/* Fills iov with the memory slices before the first file, up to the two caps. */
static void fill_iov(const ab_outbox *outbox, ab_outbox_next_op *next) {
  const ab__slice *slice = slice_at(outbox, outbox->slices.front);
  const ab__slice *end = slice_at(outbox, outbox->slices.back);
  struct iovec *iov = next->iov, *iov_end = next->iov + AB_OUTBOX_IOV_MAX;
  size_t left = AB_OUTBOX_BYTES_MAX;
  for (; slice < end && iov < iov_end && !is_file(slice->kind) && left > 0; slice++, iov++) {
    iov->iov_base = (void *)slice->ptr;
    iov->iov_len = slice->len < left ? (size_t)slice->len : left;
    left -= iov->iov_len;
  }
  next->op = AB_OUTBOX_WRITE;
  next->iov_count = (int)(iov - next->iov);
  next->bytes = AB_OUTBOX_BYTES_MAX - left;
  next->file_follows = left > 0 && slice < end && is_file(slice->kind);
}

/* The caller's. */
static void *owner_of(const ab__slice *slice) {
  if (slice->kind == AB__COPIED) return NULL;
  return is_shared(slice->kind) ? ((ab__share *)slice->owner)->owner : slice->owner;
}

static ab_outbox_slice show(const ab__slice *slice) {
  bool file = is_file(slice->kind);
  return (ab_outbox_slice){
      .ptr = file ? NULL : slice->ptr,
      .len = slice->len,
      .owner = owner_of(slice),
      .fd = slice->fd,
      .offset = file ? slice->offset : 0,
  };
}

/* Copies slices to `to`, which has room, with owners of `adopt`, released on an error. */
static int adopt_slices(const ab_outbox *from, ab_outbox *to, ab_outbox_adopt adopt, void *ctx) {
  uint32_t count = ab__deque_count(&from->slices);
  for (uint32_t i = 0; i < count; i++) {
    ab__slice *slot = slice_at(to, to->slices.back + i);
    *slot = *slice_at(from, from->slices.front + i);
    if (slot->kind == AB__COPIED) continue;
    ab_outbox_slice shown = show(slot);
    /* Its new owner is its own. */
    if (is_shared(slot->kind)) slot->kind = is_file(slot->kind) ? AB__FILE : AB__BORROWED;
    slot->owner = shown.owner;
    if (!shown.owner) continue;
    slot->owner = adopt(ctx, &shown);
    slot->fd = shown.fd;
    if (AB_LIKELY(slot->owner != NULL)) continue;
    while (i-- > 0) {
      slot = slice_at(to, to->slices.back + i);
      if (slot->kind != AB__COPIED) release_owner(to, slot->owner);
      slot->owner = NULL;
    }
    return AB_ENOMEM;
  }
  return AB_OK;
}

/* Drops all slices of `from`, now `to`'s. Between slices of one chunk are only borrowed ones. */
static void give_slices(ab_outbox *from, ab_outbox *to) {
  ab__chunk *last = NULL;
  while (!no_slices(from)) {
    ab__slice *slice = slice_at(from, from->slices.front);
    void *owner = slice->owner;
    slice->owner = NULL;
    ab__deque_drop_front(&from->slices);
    if (slice->kind != AB__COPIED) {
      if (is_file(slice->kind)) count_file(to);
      let_go(from, slice->kind, owner);
    } else if (owner != last) {
      last = owner;
      ab__chunk_move(from->pool, to->pool, last);
    }
  }
}

void ab_outbox_fini(ab_outbox *outbox) {
  ab_outbox_close(outbox);
  ab_outbox_drain(outbox);
  ab__outbox_recycle(outbox);
}

int ab_outbox_write(ab_outbox *outbox, const char *ptr, size_t len) {
  if (outbox->closed) return AB_ECLOSED;
  if (len == 0) return AB_OK;
  if (!may_queue(outbox, len)) return AB_ENOMEM;
  if (len > outbox->room) return write_spanning(outbox, ptr, len);
  if (ensure_slices(outbox, 1) != AB_OK) return AB_ENOMEM;
  copy_in(outbox, ptr, len);
  return AB_OK;
}

int ab_outbox_prepare(ab_outbox *outbox, uint32_t slices, size_t bytes) {
  assert(bytes <= AB_OUTBOX_PREPARE_MAX);
  if (bytes > outbox->pool->room) return AB_ENOMEM;
  if (ensure_slices(outbox, slices) != AB_OK) return AB_ENOMEM;
  if (outbox->chunk && bytes <= outbox->room) return AB_OK;
  ab__chunk *chunk = ab__chunk_take(outbox->pool);
  if (!chunk) return AB_ENOMEM;
  set_chunk(outbox, chunk, outbox->pool->room);
  return AB_OK;
}

/* Copies that end where the next one would begin make room for it. */
static void take_back_copied(ab_outbox *outbox, const ab__slice *slice, size_t len) {
  if (slice->kind != AB__COPIED || slice->owner != outbox->chunk) return;
  outbox->pos -= len;
  outbox->room += len;
}

void ab_outbox_take_back(ab_outbox *outbox, uint64_t n) {
  assert(n <= pending(outbox));
  outbox->queued -= n;
  while (n > 0) {
    ab__slice *last = slice_at(outbox, outbox->slices.back - 1);
    uint64_t part = n < last->len ? n : last->len;
    n -= part;
    last->len -= part;
    take_back_copied(outbox, last, (size_t)part);
    if (last->len > 0) break;
    void *owner = last->owner;
    last->owner = NULL;
    ab__deque_drop_back(&outbox->slices);
    let_go(outbox, last->kind, owner);
  }
  if (no_slices(outbox)) drop_chunk(outbox);
}

int ab_outbox_borrow(ab_outbox *outbox, const char *ptr, size_t len, void *owner) {
  return queue_borrowed(outbox, (ab__slice){
                                    .ptr = ptr,
                                    .len = len,
                                    .owner = owner,
                                    .fd = -1,
                                    .kind = AB__BORROWED,
                                });
}

int ab_outbox_file(ab_outbox *outbox, int fd, uint64_t offset, uint64_t len, void *owner) {
  if (fd < 0 || offset > (uint64_t)INT64_MAX || len > (uint64_t)INT64_MAX - offset)
    return AB_EINVAL;
  return queue_borrowed(outbox, (ab__slice){
                                    .offset = offset,
                                    .len = len,
                                    .owner = owner,
                                    .fd = fd,
                                    .kind = AB__FILE,
                                });
}

void ab_outbox_yield(ab_outbox *outbox) {
  outbox->yielding = !outbox->closed;
}

int ab_outbox_flush(ab_outbox *outbox, ab_outbox_flushed fn, void *arg) {
  /* Only marks are left: this is an earlier mark's callback, and the new one waits for its turn. */
  if (pending(outbox) == 0 && ab__deque_count(&outbox->marks) == 0) {
    outbox->yielding = false;
    fn(arg, AB_FLUSH_WRITTEN);
    return AB_OK;
  }
  if (ab__deque_ensure(&outbox->marks, outbox->pool->mem, sizeof(ab__mark), outbox->own_marks, 1) !=
      AB_OK)
    return AB_ENOMEM;
  outbox->yielding = false;
  ((ab__mark *)outbox->marks.items)[outbox->marks.back++] =
      (ab__mark){.threshold = outbox->queued, .fn = fn, .arg = arg};
  return AB_OK;
}

void ab_outbox_next(ab_outbox *outbox, ab_outbox_next_op *next) {
  bool yielding = outbox->yielding;
  outbox->yielding = false;
  next->iov_count = 0;
  next->bytes = 0;
  next->file_follows = false;
  next->file_fd = -1;
  next->file_offset = next->file_len = 0;
  if (no_slices(outbox)) {
    next->op = outbox->closed ? AB_OUTBOX_CLOSE : AB_OUTBOX_IDLE;
    return;
  }
  if (yielding) {
    next->op = AB_OUTBOX_YIELD;
    return;
  }
  const ab__slice *first = slice_at(outbox, outbox->slices.front);
  if (!is_file(first->kind)) {
    fill_iov(outbox, next);
    return;
  }
  next->op = AB_OUTBOX_FILE;
  next->file_fd = first->fd;
  next->file_offset = first->offset;
  next->file_len = first->len;
}

int ab_outbox_shift(ab_outbox *outbox, uint64_t n) {
  if (n > pending(outbox)) return AB_EINVAL;
  outbox->written += n;
  while (n > 0) {
    uint64_t len = slice_at(outbox, outbox->slices.front)->len;
    if (n < len) {
      shorten_front(outbox, n);
      break;
    }
    n -= len;
    drop_slice(outbox);
  }
  /* An empty outbox lends its chunk to the next writer; the pool hands it out first. */
  if (no_slices(outbox)) drop_chunk(outbox);
  fire_marks(outbox, AB_FLUSH_WRITTEN);
  return AB_OK;
}

/* False without memory. */
static bool share(ab_outbox *outbox, ab__slice *slice) {
  ab__share *share = ab_alloc(outbox->pool->mem, sizeof *share);
  if (!share) return false;
  *share = (ab__share){.owner = slice->owner, .refs = 1};
  slice->owner = share;
  slice->kind = is_file(slice->kind) ? AB__SHARED_FILE : AB__SHARED;
  return true;
}

/* A part of a slice, or all of it, which takes its owner along. */
static void push_part(ab_outbox *to, ab__slice *front, size_t len, bool whole) {
  ab__slice part = *front;
  part.len = len;
  push_slice(to, part);
  if (is_file(part.kind)) to->files++;
  if (!whole) {
    ((ab__share *)front->owner)->refs++;
    return;
  }
  /* What is left of it here is dropped, and counts until then. */
  front->owner = NULL;
  if (is_file(part.kind)) to->pool->files++;
}

/* Has `to` borrow the first bytes of the front slice. */
static int lend_front(ab_outbox *from, ab_outbox *to, size_t len) {
  ab__slice *front = slice_at(from, from->slices.front);
  if (to->closed) return AB_ECLOSED;
  if (!may_queue(to, len)) return AB_EINVAL;
  if (ensure_slices(to, 1) != AB_OK) return AB_ENOMEM;
  bool whole = !is_shared(front->kind) && front->len == len;
  if (!whole && !is_shared(front->kind) && !share(from, front)) return AB_ENOMEM;
  push_part(to, front, len, whole);
  return AB_OK;
}

/* Short parts are copied, and what nobody says is done with; files always can be lent. */
static bool may_lend(const ab__slice *front, size_t len) {
  if (is_file(front->kind)) return true;
  return len >= AB__PASS_MIN && front->kind != AB__COPIED && front->owner;
}

int ab_outbox_pass(ab_outbox *from, ab_outbox *to, size_t len) {
  assert(from->pool == to->pool);
  if (len > pending(from)) return AB_EINVAL;
  while (len > 0) {
    const ab__slice *front = slice_at(from, from->slices.front);
    size_t part = front->len < len ? (size_t)front->len : len;
    int error =
        may_lend(front, part) ? lend_front(from, to, part) : ab_outbox_write(to, front->ptr, part);
    if (error) return error;
    (void)ab_outbox_shift(from, part);
    len -= part;
  }
  return AB_OK;
}

bool ab_outbox_slice_at(const ab_outbox *outbox, uint32_t index, ab_outbox_slice *slice) {
  if (index >= ab__deque_count(&outbox->slices)) return false;
  *slice = show(slice_at(outbox, outbox->slices.front + index));
  return true;
}

int ab_outbox_move(ab_outbox *from, ab_outbox *to, ab_outbox_adopt adopt, void *ctx) {
  uint64_t len = pending(from);
  uint32_t count = ab__deque_count(&from->slices);
  if (to->closed) return AB_ECLOSED;
  if (!may_queue(to, len)) return AB_EINVAL;
  if (ensure_slices(to, count) != AB_OK) return AB_ENOMEM;
  int error = adopt_slices(from, to, adopt, ctx);
  if (error) return error;
  /* What `to` holds is its own from here on: nothing of `from` may refer to a chunk of it. */
  drop_chunk(from);
  to->slices.back += count;
  to->queued += len;
  from->written = from->queued;
  from->yielding = false;
  give_slices(from, to);
  fire_marks(from, AB_FLUSH_WRITTEN);
  return AB_OK;
}

size_t ab_outbox_list_memory(const ab_outbox *outbox) {
  const ab__deque *slices = &outbox->slices, *marks = &outbox->marks;
  size_t size = 0;
  if (slices->items != outbox->own_slices) size += slices->capacity * sizeof(ab__slice);
  if (marks->items != outbox->own_marks) size += marks->capacity * sizeof(ab__mark);
  return size;
}

size_t ab_outbox_room(const ab_outbox *outbox) {
  return outbox->chunk ? outbox->room : outbox->pool->room;
}

uint32_t ab_outbox_slices(const ab_outbox *outbox) {
  return ab__deque_count(&outbox->slices);
}

uint32_t ab_outbox_files(const ab_outbox *outbox) {
  return outbox->files;
}

size_t ab_outbox_pool_files(const ab_outbox_pool *pool) {
  return pool->files;
}

uint64_t ab_outbox_pending(const ab_outbox *outbox) {
  return pending(outbox);
}

uint64_t ab_outbox_queued(const ab_outbox *outbox) {
  return outbox->queued;
}

void ab_outbox_close(ab_outbox *outbox) {
  outbox->closed = true;
  outbox->yielding = false;
}

bool ab_outbox_closed(const ab_outbox *outbox) {
  return outbox->closed;
}

uint64_t ab_outbox_drain(ab_outbox *outbox) {
  /* Marks are due here only if a mark's callback drains: those have been written. */
  fire_marks(outbox, AB_FLUSH_WRITTEN);
  uint64_t dropped = pending(outbox);
  outbox->written = outbox->queued;
  outbox->yielding = false;
  while (!no_slices(outbox)) drop_slice(outbox);
  drop_chunk(outbox);
  fire_marks(outbox, AB_FLUSH_DRAINED);
  return dropped;
}
