/* What the files of an Abaca::Outbox share.
 * The queue changes only in calls that run no Ruby code, so threads and fibers find it consistent.
 * Code that takes bytes out in steps holds `taken`, so that nothing else shifts what it has shown.
 * The owner of a borrowed slice is the Ruby object itself, marked and pinned while the slice is
 * pending. */
#ifndef AB_RB_OUTBOX_PARTS_H
#define AB_RB_OUTBOX_PARTS_H

#include <ruby.h>

#include "base/list.h"
#include "outbox/outbox.h"
#include "rb/outbox/rb_outbox.h"

/* Bytes of a file that are read into memory at once. */
#define AB_BOX_READ_MAX 65536

typedef struct ab_box {
  ab_outbox *queue; /* NULL before initialize */
  ab_outbox_pool *pool;
  uint64_t high, low; /* watermarks, bytes */
  size_t room;        /* bytes of a chunk */
  uint64_t drains;    /* how often it was drained */
  ab_list waiting;    /* ab_box_callback, in the order of their marks */
  ab_list due;        /* those whose mark has fired */
  ab_list spare;
  VALUE block;        /* that will fill it; Qnil if there is none, or after its call */
  ab_box_taker taker; /* of ab_box_fill, or NULL */
  VALUE taker_arg;
  VALUE waiters; /* an Array of the Queues of the callers in wait_writable, or Qnil */
  VALUE scratch; /* the String of write_gen, while it is not in use; or Qnil */
  VALUE reused;  /* the Array of serialize, or Qnil */
  bool taken;    /* bytes are being taken out, step by step */
  bool lent;     /* slices are in a system call that runs without the GVL */
  bool calling;  /* flush callbacks are being called */
} ab_box;

/* rb_outbox.c */

NORETURN(void ab__box_raise(int error));
NORETURN(void ab__box_raise_busy(void));
NORETURN(void ab__box_raise_uninitialized(void));

/* Every object of the class and its subclasses comes from our allocator. */
static inline ab_box *ab__box(VALUE self) {
  ab_box *box = RTYPEDDATA_DATA(self);
  if (RB_UNLIKELY(!box->queue)) ab__box_raise_uninitialized();
  return box;
}

/* The same for a caller that changes it. */
static inline ab_box *ab__box_to_change(VALUE self) {
  rb_check_frozen(self);
  return ab__box(self);
}

/* Bytes have gone, or the outbox was closed: calls flush blocks that are due, wakes waiters.
 * Raises what they raise; blocks that were not called stay. */
void ab__box_moved_on(VALUE self, ab_box *box);
/* Raises Busy while bytes are being taken out. */
static inline void ab__box_check_free(const ab_box *box) {
  if (RB_UNLIKELY(box->taken)) ab__box_raise_busy();
}
void ab__box_take(ab_box *box);
VALUE ab__box_release(VALUE self);
/* `len` bytes at the front have been taken. */
void ab__box_shift(VALUE self, ab_box *box, uint64_t len);
/* Drops what is pending and returns the number of bytes. Raises Busy during a system call. */
uint64_t ab__box_drain(VALUE self, ab_box *box);

/* Bytes have been queued. While bytes are being taken out, they wait for the next call. */
static inline void ab__box_queued(VALUE self, ab_box *box) {
  if (RB_LIKELY(box->taker == NULL) || box->taken) return;
  if (ab_outbox_pending(box->queue) > box->high) box->taker(self, box->taker_arg, false);
}

/* rb_outbox_take.c */

/* `len` bytes of a slice as a new String, or the owner itself if it is just these bytes. */
VALUE ab__box_string(const ab_outbox_slice *slice, size_t len);
/* Up to AB_BOX_READ_MAX bytes of a file. Raises IOError, EOFError, SystemCallError. */
VALUE ab__box_read(const ab_outbox_slice *slice);
/* The descriptor of a scheduled file. Raises IOError if it has been closed. */
int ab__box_file(const ab_outbox_slice *slice);

/* Each adds its methods. */
void ab__init_outbox_write(VALUE cOutbox);
void ab__init_outbox_take(VALUE cOutbox);
void ab__init_outbox_io(VALUE cOutbox);
void ab__init_outbox_body(VALUE cOutbox);

#endif
