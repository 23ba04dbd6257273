/* The object: its life, its counters, flush callbacks, and waits for room. */
#include <stdlib.h>

#include "os/process.h"
#include "rb/outbox/rb_outbox_parts.h"

#define ROOM_MAX (16 * 1024 * 1024)
/* Spare chunks that an outbox keeps at most. */
#define SPARE_MAX 256

typedef struct ab_box_callback {
  ab_list link;
  ab_box *box;
  VALUE block;
  enum ab_flush_reason reason;
  bool at_once; /* nothing was pending */
} ab_box_callback;

/* --- errors --- */

void ab__box_raise(int error) {
  if (error == AB_ECLOSED) rb_raise(rb_eIOError, "closed outbox");
  if (error == AB_EINVAL) rb_raise(rb_eRangeError, "more would be pending than can be counted");
  rb_memerror();
}

void ab__box_raise_uninitialized(void) {
  rb_raise(rb_eRuntimeError, "the outbox has not been initialized");
}

void ab__box_raise_busy(void) {
  rb_raise(rb_path2class("Abaca::Outbox::Busy"),
           "another caller is taking bytes out of the outbox");
}

/* --- memory --- */

/* libc's allocator; Ruby's collector is told, and collects dead outboxes sooner. */
static void *told_realloc(void *ctx, void *ptr, size_t size) {
  (void)ctx;
  ssize_t before = ptr ? (ssize_t)ab_os_allocated(ptr) : 0;
  if (size == 0) {
    free(ptr);
    rb_gc_adjust_memory_usage(-before);
    return NULL;
  }
  void *moved = realloc(ptr, size);
  if (moved) rb_gc_adjust_memory_usage((ssize_t)ab_os_allocated(moved) - before);
  return moved;
}

static const ab_mem told_mem = {told_realloc, NULL};

/* Owners are Ruby objects, which are released by no longer being marked. */
static void release_owner(void *ctx, void *owner) {
  (void)ctx, (void)owner;
}

static void mark_callbacks(const ab_list *list) {
  for (const ab_list *node = list->next; node != list; node = node->next)
    rb_gc_mark(AB_CONTAINER_OF(node, ab_box_callback, link)->block);
}

static void box_mark(void *ptr) {
  ab_box *box = ptr;
  rb_gc_mark(box->block);
  rb_gc_mark(box->taker_arg);
  rb_gc_mark(box->waiters);
  rb_gc_mark(box->scratch);
  rb_gc_mark(box->reused);
  mark_callbacks(&box->waiting);
  mark_callbacks(&box->due);
  if (!box->queue) return;
  ab_outbox_slice slice;
  for (uint32_t i = 0; ab_outbox_slice_at(box->queue, i, &slice); i++)
    if (slice.owner) rb_gc_mark((VALUE)slice.owner);
}

static void free_callbacks(ab_list *list) {
  ab_list *node;
  while ((node = ab_list_shift(list)))
    ab_free(&told_mem, AB_CONTAINER_OF(node, ab_box_callback, link));
}

/* Flush marks that fire here only move callbacks from one list to another. */
static void box_free(void *ptr) {
  ab_box *box = ptr;
  if (box->queue) ab_outbox_fini(box->queue);
  if (box->pool) ab_outbox_pool_fini(box->pool);
  free_callbacks(&box->waiting);
  free_callbacks(&box->due);
  free_callbacks(&box->spare);
  xfree(box);
}

static size_t size_of_callbacks(const ab_list *list) {
  size_t size = 0;
  for (const ab_list *node = list->next; node != list; node = node->next)
    size += sizeof(ab_box_callback);
  return size;
}

static size_t box_size(const void *ptr) {
  const ab_box *box = ptr;
  size_t size = sizeof(*box);
  if (!box->queue) return size;
  size += ab_outbox_pool_memory(box->pool) + ab_outbox_list_memory(box->queue);
  size += size_of_callbacks(&box->waiting) + size_of_callbacks(&box->due);
  size += size_of_callbacks(&box->spare);
  ab_outbox_slice slice;
  for (uint32_t i = 0; ab_outbox_slice_at(box->queue, i, &slice); i++)
    if (slice.ptr && !slice.owner && slice.len > box->room) size += slice.len;
  return size;
}

/* With write barriers, for minor collections. Pinned: C code points into the strings. */
static const rb_data_type_t box_type = {
    .wrap_struct_name = "Abaca::Outbox",
    .function = {.dmark = box_mark, .dfree = box_free, .dsize = box_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

bool ab_box_is(VALUE object) {
  return rb_typeddata_is_kind_of(object, &box_type);
}

static VALUE box_alloc(VALUE klass) {
  ab_box *box;
  VALUE self = TypedData_Make_Struct(klass, ab_box, &box_type, box);
  ab_list_init(&box->waiting);
  ab_list_init(&box->due);
  ab_list_init(&box->spare);
  box->block = box->taker_arg = box->waiters = box->scratch = box->reused = Qnil;
  return self;
}

/* --- new --- */

static uint64_t bytes_option(VALUE value, uint64_t usual, uint64_t least, uint64_t most,
                             const char *name) {
  if (value == Qundef) return usual;
  VALUE number = rb_to_int(value);
  long long bytes = FIXNUM_P(number) ? FIX2LONG(number) : -1; /* no bignum is in range */
  if (bytes < (long long)least || bytes > (long long)most) {
    rb_raise(rb_eArgError, "%s must be %llu to %llu bytes, not %" PRIsVALUE, name,
             (unsigned long long)least, (unsigned long long)most, number);
  }
  return (uint64_t)bytes;
}

/* @!method initialize(buffer: 4096, high_watermark: 65536, low_watermark: high_watermark / 4,
 * &block) */
static VALUE box_initialize(int argc, VALUE *argv, VALUE self) {
  VALUE options, values[3];
  ab_box *box = RTYPEDDATA_DATA(self);
  rb_scan_args(argc, argv, "0:", &options);
  const ID names[] = {rb_intern("buffer"), rb_intern("high_watermark"), rb_intern("low_watermark")};
  rb_get_kwargs(options, names, 0, 3, values);
  uint64_t room = bytes_option(values[0], 4096, 1, ROOM_MAX, "buffer");
  uint64_t high = bytes_option(values[1], 65536, 0, FIXNUM_MAX, "high_watermark");
  uint64_t low = bytes_option(values[2], high / 4, 0, high, "low_watermark");
  rb_check_frozen(self);
  if (box->queue) rb_raise(rb_eRuntimeError, "already initialized");

  /* With these, going up to the high watermark and down again allocates nothing. */
  size_t spare = high / room + 2 < SPARE_MAX ? (size_t)(high / room) + 2 : SPARE_MAX;
  if (!box->pool) box->pool = ab_outbox_pool_init(&told_mem, release_owner, NULL, 0, spare);
  if (!box->pool) rb_memerror();
  ab_outbox_pool_set_room(box->pool, (size_t)room);
  box->room = (size_t)room;
  box->high = high;
  box->low = low;
  box->queue = ab_outbox_init(box->pool);
  if (!box->queue) rb_memerror();
  if (rb_block_given_p()) RB_OBJ_WRITE(self, &box->block, rb_block_proc());
  return self;
}

static VALUE box_initialize_copy(VALUE self, VALUE other) {
  (void)other;
  rb_raise(rb_eTypeError, "an outbox cannot be copied");
  return self;
}

/* --- counters --- */

#define READER(name, value)                                                                        \
  static VALUE box_##name(VALUE self) {                                                            \
    const ab_box *box = ab__box(self);                                                             \
    return value;                                                                                  \
  }

READER(pending_bytes, ULL2NUM(ab_outbox_pending(box->queue)))
READER(pending_p, ab_outbox_pending(box->queue) > 0 ? Qtrue : Qfalse)
READER(free_bytes, SIZET2NUM(ab_outbox_room(box->queue)))
READER(closed_p, ab_outbox_closed(box->queue) ? Qtrue : Qfalse)
READER(high_watermark, ULL2NUM(box->high))
READER(low_watermark, ULL2NUM(box->low))

/* --- flush --- */

/* A mark has fired inside a call of the queue; the block is called after that call. */
static void mark_fired(void *arg, enum ab_flush_reason reason) {
  ab_box_callback *callback = arg;
  callback->reason = reason;
  ab_list_remove(&callback->link);
  ab_list_append(&callback->box->due, &callback->link);
}

static VALUE call_due(VALUE self) {
  ab_box *box = ab__box(self);
  ab_list *node;
  while ((node = ab_list_shift(&box->due))) {
    ab_box_callback *callback = AB_CONTAINER_OF(node, ab_box_callback, link);
    VALUE block = callback->block;
    ID reason = callback->at_once                      ? rb_intern("nothing_pending")
                : callback->reason == AB_FLUSH_DRAINED ? rb_intern("drain")
                                                       : rb_intern("shift");
    ab_list_append(&box->spare, node);
    VALUE argument = ID2SYM(reason);
    rb_proc_call_with_block(block, 1, &argument, Qnil);
  }
  return Qnil;
}

static VALUE end_calling(VALUE self) {
  ab__box(self)->calling = false;
  return Qnil;
}

/* --- waiting for room --- */

static bool has_room(const ab_box *box) {
  return ab_outbox_pending(box->queue) <= box->low || ab_outbox_closed(box->queue);
}

/* Each waiter, a thread or any scheduler's fiber, has a queue, which keeps what is pushed early. */
static void wake_waiters(ab_box *box) {
  if (!has_room(box)) return;
  VALUE waiters = box->waiters;
  while (RARRAY_LEN(waiters) > 0) rb_funcall(rb_ary_shift(waiters), rb_intern("push"), 1, Qtrue);
}

typedef struct waiter {
  const ab_box *box;
  VALUE waiters, queue;
} waiter;

/* From here on the queue is found. Another thread may have run during its allocation. */
static VALUE wait_in_queue(VALUE arg) {
  const waiter *w = (waiter *)arg;
  rb_ary_push(w->waiters, w->queue);
  return has_room(w->box) ? Qnil : rb_funcall(w->queue, rb_intern("pop"), 0);
}

static VALUE leave_queue(VALUE arg) {
  const waiter *w = (waiter *)arg;
  return rb_ary_delete(w->waiters, w->queue);
}

static VALUE box_wait_writable(VALUE self) {
  ab_box *box = ab__box(self);
  if (box->taker && ab_outbox_pending(box->queue) > box->high) {
    box->taker(self, box->taker_arg, false);
  }
  if (ab_outbox_pending(box->queue) <= box->high) {
    return ab_outbox_closed(box->queue) ? Qfalse : Qtrue;
  }
  while (!has_room(box)) {
    if (NIL_P(box->waiters)) RB_OBJ_WRITE(self, &box->waiters, rb_ary_new());
    waiter w = {.box = box, .waiters = box->waiters};
    w.queue = rb_class_new_instance(0, NULL, rb_path2class("Thread::Queue"));
    rb_ensure(wait_in_queue, (VALUE)&w, leave_queue, (VALUE)&w);
  }
  return ab_outbox_closed(box->queue) ? Qfalse : Qtrue;
}

void ab__box_moved_on(VALUE self, ab_box *box) {
  if (!NIL_P(box->waiters)) wake_waiters(box);
  if (ab_list_empty(&box->due) || box->calling) return;
  box->calling = true;
  rb_ensure(call_due, self, end_calling, self);
}

static ab_box_callback *new_callback(ab_box *box) {
  ab_list *node = ab_list_shift(&box->spare);
  if (node) return AB_CONTAINER_OF(node, ab_box_callback, link);
  ab_box_callback *callback = ab_alloc(&told_mem, sizeof(*callback));
  if (!callback) rb_memerror();
  ab_list_init(&callback->link);
  return callback;
}

static void no_mark(void *arg, enum ab_flush_reason reason) {
  (void)arg, (void)reason;
}

/* Only takes a yield back. */
static void flush_without_block(ab_box *box) {
  if (ab_outbox_flush(box->queue, no_mark, NULL) != AB_OK) rb_memerror();
}

static void flush_with_block(VALUE self, ab_box *box, VALUE block) {
  ab_box_callback *callback = new_callback(box);
  callback->box = box;
  callback->block = block;
  callback->at_once = ab_outbox_pending(box->queue) == 0;
  ab_list_append(&box->waiting, &callback->link);
  RB_OBJ_WRITTEN(self, Qundef, block);
  if (ab_outbox_flush(box->queue, mark_fired, callback) != AB_OK) {
    ab_list_remove(&callback->link);
    ab_list_append(&box->spare, &callback->link);
    rb_memerror();
  }
}

static VALUE box_flush(VALUE self) {
  ab_box *box = ab__box_to_change(self);
  if (rb_block_given_p()) {
    flush_with_block(self, box, rb_block_proc());
  } else {
    flush_without_block(box);
  }
  if (box->taker) box->taker(self, box->taker_arg, true);
  ab__box_moved_on(self, box);
  return self;
}

/* --- the ways out --- */

void ab__box_take(ab_box *box) {
  ab__box_check_free(box);
  box->taken = true;
}

VALUE ab__box_release(VALUE self) {
  ab__box(self)->taken = false;
  return Qnil;
}

void ab__box_shift(VALUE self, ab_box *box, uint64_t len) {
  /* The caller knows that this many bytes are pending. */
  if (ab_outbox_shift(box->queue, len) != AB_OK) rb_bug("an outbox has lost count");
  ab__box_moved_on(self, box);
}

static VALUE box_shift(VALUE self, VALUE count) {
  ab_box *box = ab__box_to_change(self);
  if (!RB_INTEGER_TYPE_P(count)) {
    rb_raise(rb_eTypeError, "an Integer is needed, not %" PRIsVALUE, rb_obj_class(count));
  }
  uint64_t pending = ab_outbox_pending(box->queue);
  bool fits = FIXNUM_P(count) && FIX2LONG(count) >= 0 && (uint64_t)FIX2LONG(count) <= pending;
  if (!fits) {
    rb_raise(rb_eArgError, "cannot shift %" PRIsVALUE " of %llu bytes", count,
             (unsigned long long)pending);
  }
  ab__box_check_free(box);
  ab__box_shift(self, box, (uint64_t)FIX2LONG(count));
  return self;
}

uint64_t ab__box_drain(VALUE self, ab_box *box) {
  if (box->lent) ab__box_raise_busy();
  box->drains++;
  uint64_t dropped = ab_outbox_drain(box->queue);
  ab__box_moved_on(self, box);
  return dropped;
}

static VALUE box_drain(VALUE self) {
  return ULL2NUM(ab__box_drain(self, ab__box_to_change(self)));
}

static VALUE box_close(VALUE self) {
  ab_box *box = ab__box_to_change(self);
  ab_outbox_close(box->queue);
  ab__box_moved_on(self, box);
  return Qnil;
}

static VALUE box_yield_once(VALUE self) {
  ab_outbox_yield(ab__box_to_change(self)->queue);
  return self;
}

void ab_init_outbox(VALUE mAbaca) {
  VALUE cOutbox = rb_define_class_under(mAbaca, "Outbox", rb_cObject);
  rb_define_alloc_func(cOutbox, box_alloc);
  rb_define_method(cOutbox, "initialize", box_initialize, -1);
  rb_define_method(cOutbox, "initialize_copy", box_initialize_copy, 1);
  rb_define_method(cOutbox, "pending_bytes", box_pending_bytes, 0);
  rb_define_method(cOutbox, "pending?", box_pending_p, 0);
  rb_define_method(cOutbox, "free_bytes", box_free_bytes, 0);
  rb_define_method(cOutbox, "closed?", box_closed_p, 0);
  rb_define_method(cOutbox, "high_watermark", box_high_watermark, 0);
  rb_define_method(cOutbox, "low_watermark", box_low_watermark, 0);
  rb_define_method(cOutbox, "wait_writable", box_wait_writable, 0);
  rb_define_method(cOutbox, "flush", box_flush, 0);
  rb_define_method(cOutbox, "shift", box_shift, 1);
  rb_define_method(cOutbox, "drain", box_drain, 0);
  rb_define_method(cOutbox, "close", box_close, 0);
  rb_define_method(cOutbox, "yield_once", box_yield_once, 0);
  ab__init_outbox_write(cOutbox);
  ab__init_outbox_take(cOutbox);
  ab__init_outbox_io(cOutbox);
  ab__init_outbox_body(cOutbox);
}
