/* The structures of an outbox and its pool: for the files of this room and its tests only. */
#ifndef AB_OUTBOX_INTERNAL_H
#define AB_OUTBOX_INTERNAL_H

#include "outbox/deque.h"
#include "outbox/outbox.h"

#define AB__SLICES_OWN  4  /* slots inside the outbox; a response with a borrowed body needs 2 */
#define AB__MARKS_OWN   2  /* likewise for flush marks */
#define AB__SLICES_KEEP 64 /* slots on the heap that an outbox takes back to its pool */
#define AB__MARKS_KEEP  16
#define AB__SPAN_MAX    8 /* chunks that one write may take; a longer one gets memory of its own */

/* Bounds what is pending: the sign of a difference says which counter is ahead. */
#define AB__PENDING_MAX ((uint64_t)INT64_MAX)

/* Memory for copies; each slice in it and the outbox that appends to it hold a reference. */
typedef struct ab__chunk {
  struct ab__chunk *next; /* of the pool's free list, or of a chain that is being taken */
  uint32_t refs;
  bool standard; /* of its pool's room: it may go back to the free list */
  char bytes[];
} ab__chunk;

#define AB__CHUNK_ROOM (AB_OUTBOX_CHUNK_SIZE - offsetof(ab__chunk, bytes))

/* AB__SHARED, AB__SHARED_FILE: borrowed by several slices, of which each has a part. Files are
 * last. */
enum ab__slice_kind { AB__COPIED, AB__BORROWED, AB__SHARED, AB__FILE, AB__SHARED_FILE };

/* An owner that is released when the last of its slices has gone. */
typedef struct ab__share {
  void *owner;
  uint32_t refs;
} ab__share;

/* A shorter part of borrowed bytes is copied where it is passed on. */
#define AB__PASS_MIN 1024

typedef struct ab__slice {
  union {
    const char *ptr;
    uint64_t offset; /* of a file */
  };
  uint64_t len; /* never 0 */
  /* The ab__chunk of AB__COPIED, the ab__share of what is shared, otherwise the caller's; NULL in
   * an unused slot. */
  void *owner;
  int fd;
  enum ab__slice_kind kind;
} ab__slice;

typedef struct ab__mark {
  uint64_t threshold; /* fires when `written` reaches it */
  ab_outbox_flushed fn;
  void *arg;
} ab__mark;

struct ab_outbox {
  ab_outbox_pool *pool;
  uint64_t queued, written;
  ab__chunk *chunk; /* takes the next copy; NULL if none does */
  char *pos;        /* where in it */
  size_t room;      /* bytes from pos on */
  uint32_t files;   /* slices that are files */
  bool closed, yielding;
  ab__deque slices, marks;
  ab_outbox *next; /* of the pool's free list */
  ab__slice own_slices[AB__SLICES_OWN];
  ab__mark own_marks[AB__MARKS_OWN];
};

struct ab_outbox_pool {
  const ab_mem *mem;
  ab_outbox_release release;
  void *ctx;
  size_t room; /* bytes of a standard chunk */
  ab_outbox *free_outboxes;
  ab__chunk *free_chunks;
  size_t spare_outboxes, spare_chunks;         /* how many are on the free lists */
  size_t spare_outboxes_max, spare_chunks_max; /* how many may be */
  size_t outboxes_out, chunks_out;             /* how many are in use */
  size_t files;                                /* of all outboxes, a shared one once */
};

/* A standard chunk with one reference, the caller's; NULL when memory runs out. */
ab__chunk *ab__chunk_take(ab_outbox_pool *pool);
/* `count` standard chunks linked by `next`, each with one reference: all of them, or NULL. */
ab__chunk *ab__chunk_take_chain(ab_outbox_pool *pool, size_t count);
/* A chunk of `room` bytes that is freed after use instead of recycled; NULL as above. */
ab__chunk *ab__chunk_take_sized(ab_outbox_pool *pool, size_t room);
/* Frees the memory; the caller has dropped the last reference. */
void ab__chunk_recycle(ab_outbox_pool *pool, ab__chunk *chunk);
/* Gives the chunk and all its references to `to`; `from` gets a spare one for it if one fits. */
void ab__chunk_move(ab_outbox_pool *from, ab_outbox_pool *to, ab__chunk *chunk);
void ab__chunk_recycle_chain(ab_outbox_pool *pool, ab__chunk *chain);

static inline void ab__chunk_unref(ab_outbox_pool *pool, ab__chunk *chunk) {
  if (--chunk->refs == 0) ab__chunk_recycle(pool, chunk);
}

/* The outbox must hold no slice, mark or chunk. */
void ab__outbox_recycle(ab_outbox *outbox);

#endif
