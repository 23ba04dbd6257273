/* Abaca::Page::Slot: a worker's part of the page. */
#include <errno.h>

#include "io/timer.h"
#include "rb/page/rb_page_parts.h"

typedef struct rb_slot {
  VALUE page;
  uint32_t index;
  bool occupied; /* by a server of the process that has claimed it */
} rb_slot;

static void slot_mark(void *ptr) {
  rb_gc_mark(((rb_slot *)ptr)->page);
}

static const rb_data_type_t slot_type = {
    .wrap_struct_name = "Abaca::Page::Slot",
    .function = {.dmark = slot_mark, .dfree = RUBY_DEFAULT_FREE},
};

VALUE ab__slot_new(VALUE cPage, VALUE page, uint32_t index) {
  rb_slot *own;
  VALUE klass = rb_const_get(cPage, rb_intern("Slot"));
  VALUE self = TypedData_Make_Struct(klass, rb_slot, &slot_type, own);
  own->page = page;
  own->index = index;
  return self;
}

static rb_slot *own_of(VALUE self) {
  return rb_check_typeddata(self, &slot_type);
}

static ab_page_slot *slot_of(VALUE self) {
  const rb_slot *own = own_of(self);
  return ab_page_slot_of(ab__page_of(own->page), own->index);
}

ab_page_parts ab__slot_parts(VALUE self) {
  const rb_slot *own = own_of(self);
  return ab_page_parts_to_read(ab__page_of(own->page), own->index);
}

ab_page *ab__slot_page(VALUE self) {
  return ab__page_of(own_of(self)->page);
}

const ab_page_head *ab__slot_head(VALUE self) {
  return ab_page_head_of(ab__slot_page(self));
}

void ab__slot_check_writable(VALUE self) {
  if (ab_page_is_read_only(ab__slot_page(self)))
    rb_raise(rb_path2class("Abaca::Error"), "the page is another server's: it can only be read");
}

/* ... to write in it. */
static ab_page *open_page(VALUE self) {
  ab__slot_check_writable(self);
  return ab__slot_page(self);
}

static ab_page_view slot_view(VALUE self) {
  return ab_page_look(slot_of(self));
}

NORETURN(static void refuse(VALUE self, const char *what));

static void refuse(VALUE self, const char *what) {
  ab_page_view view = slot_view(self);
  VALUE error = rb_path2class("Abaca::Error");
  if (!view.pid) rb_raise(error, "slot %u is empty: %s", own_of(self)->index, what);
  rb_raise(error, "slot %u belongs to process %d: %s", own_of(self)->index, (int)view.pid, what);
}

/* --- states --- */

static const char *const states[AB_PAGE_STATES] = {
    [AB_PAGE_EMPTY] = "empty",       [AB_PAGE_BOOTING] = "booting", [AB_PAGE_SERVING] = "serving",
    [AB_PAGE_DRAINING] = "draining", [AB_PAGE_ENDED] = "ended",
};

static enum ab_page_state state_of(VALUE name) {
  for (unsigned i = 0; i < AB_PAGE_STATES; i++) {
    if (name == ID2SYM(rb_intern(states[i]))) return (enum ab_page_state)i;
  }
  rb_raise(rb_eArgError,
           "%+" PRIsVALUE " is not one of :empty, :booting, :serving, :draining, :ended", name);
}

/* call-seq: state -> Symbol */
static VALUE slot_state(VALUE self) {
  return ID2SYM(rb_intern(states[slot_view(self).state]));
}

/* call-seq: state = Symbol */
static VALUE slot_set_state(VALUE self, VALUE name) {
  enum ab_page_state state = state_of(name);
  const ab_page *page = open_page(self);
  uint32_t index = own_of(self)->index;
  if (!ab_page_may_set(page, index))
    refuse(self, "only it and the page's creator may write its state");
  ab_page_set_state(page, index, state);
  return name;
}

/* --- taking it --- */

/* call-seq: take(phase) -> self */
static VALUE slot_take(VALUE self, VALUE phase) {
  uint32_t number = NUM2UINT(phase);
  rb_slot *own = own_of(self);
  ab_page *page = open_page(self);
  if (own->occupied && ab_page_is_mine(page, own->index)) refuse(self, "a server runs in it");
  int result = ab_page_claim(page, own->index, number, ab__page_now());
  if (result == AB_ENOSPC) rb_syserr_fail(ENOSPC, "cannot keep room for a slot of the page");
  if (result != AB_OK) refuse(self, "it is alive");
  own->occupied = false; /* it was by the process that has forked this one */
  return self;
}

/* call-seq: mine? -> true or false */
static VALUE slot_is_mine(VALUE self) {
  return ab_page_is_mine(ab__slot_page(self), own_of(self)->index) ? Qtrue : Qfalse;
}

/* call-seq: beat -> nil */
static VALUE slot_beat(VALUE self) {
  const ab_page *page = open_page(self);
  uint32_t index = own_of(self)->index;
  if (!ab_page_is_mine(page, index))
    refuse(self, "a heartbeat comes from the process that has claimed it");
  ab_page_beat(page, index, ab_clock_monotonic());
  return Qnil;
}

/* call-seq: limit(places, queue) -> nil
 *
 * queue: Integer, or nil for any number. */
static VALUE slot_limit(VALUE self, VALUE places, VALUE queue) {
  uint32_t count = NUM2UINT(places), most = NIL_P(queue) ? UINT32_MAX : NUM2UINT(queue);
  const ab_page *page = open_page(self);
  ab_page_slot *slot = slot_of(self);
  if (!ab_page_is_mine(page, own_of(self)->index))
    refuse(self, "its limits come from the process that has claimed it");
  AB_PUT(slot->process.queue_most, most);
  AB_PUT(slot->process.places, count);
  return Qnil;
}

/* --- what is in it --- */

/* call-seq: index -> Integer */
static VALUE slot_index(VALUE self) {
  return UINT2NUM(own_of(self)->index);
}

/* call-seq: pid -> Integer or nil */
static VALUE slot_pid(VALUE self) {
  pid_t pid = slot_view(self).pid;
  return pid ? INT2NUM(pid) : Qnil;
}

/* call-seq: claims -> Integer */
static VALUE slot_claims(VALUE self) {
  return UINT2NUM(slot_view(self).claims);
}

/* call-seq: phase -> Integer or nil */
static VALUE slot_phase(VALUE self) {
  ab_page_view view = slot_view(self);
  return view.pid ? UINT2NUM(view.phase) : Qnil;
}

/* call-seq: started_at -> Time or nil */
static VALUE slot_started_at(VALUE self) {
  ab_page_view view = slot_view(self);
  if (!view.pid) return Qnil;
  return rb_time_nano_new((time_t)(view.started_at / AB_NSEC_PER_SEC),
                          (long)(view.started_at % AB_NSEC_PER_SEC));
}

/* nil without one, and for one to come. */
static VALUE age_of(ab_nsec moment) {
  ab_nsec now = ab_clock_monotonic();
  if (!moment || moment > now) return Qnil;
  return DBL2NUM((double)(now - moment) / (double)AB_NSEC_PER_SEC);
}

/* call-seq: beat_age -> Float or nil */
static VALUE slot_beat_age(VALUE self) {
  return age_of(slot_view(self).beat);
}

/* call-seq: turn_age -> Float or nil */
static VALUE slot_turn_age(VALUE self) {
  return age_of(slot_view(self).turned);
}

/* call-seq: figures -> Hash */
static VALUE slot_figures(VALUE self) {
  ab_page_view view = slot_view(self);
  VALUE hash = rb_hash_new();
  ab_put_figures(hash, &view.figures);
  return hash;
}

/* --- for a server --- */

void ab_slot_check_type(VALUE slot) {
  own_of(slot);
}

void ab__slot_check_mine(VALUE slot) {
  if (!ab_page_is_mine(open_page(slot), own_of(slot)->index))
    refuse(slot, "a server runs in the process that has claimed it");
}

void ab_slot_check(VALUE slot) {
  ab__slot_check_mine(slot);
  if (own_of(slot)->occupied) refuse(slot, "another server runs in it");
}

ab_page_slot *ab_slot_occupy(VALUE slot, ab_page **page) {
  rb_slot *own = own_of(slot);
  *page = ab__page_of(own->page);
  ab_page_hold(*page);
  own->occupied = true;
  return slot_of(slot);
}

uint32_t ab_slot_index(VALUE slot) {
  return own_of(slot)->index;
}

void ab_slot_vacate(VALUE slot) {
  own_of(slot)->occupied = false;
}

void ab__init_slot(VALUE cPage) {
  VALUE cSlot = rb_define_class_under(cPage, "Slot", rb_cObject);
  rb_undef_alloc_func(cSlot);
  rb_define_private_method(cSlot, "take", slot_take, 1);
  rb_define_method(cSlot, "mine?", slot_is_mine, 0);
  rb_define_method(cSlot, "index", slot_index, 0);
  rb_define_method(cSlot, "state", slot_state, 0);
  rb_define_method(cSlot, "state=", slot_set_state, 1);
  rb_define_method(cSlot, "pid", slot_pid, 0);
  rb_define_method(cSlot, "claims", slot_claims, 0);
  rb_define_method(cSlot, "phase", slot_phase, 0);
  rb_define_method(cSlot, "started_at", slot_started_at, 0);
  rb_define_method(cSlot, "beat", slot_beat, 0);
  rb_define_method(cSlot, "limit", slot_limit, 2);
  rb_define_method(cSlot, "beat_age", slot_beat_age, 0);
  rb_define_method(cSlot, "turn_age", slot_turn_age, 0);
  rb_define_method(cSlot, "figures", slot_figures, 0);
  ab__init_rows(cSlot);
  ab__init_areas(cSlot);
  ab__init_times(cPage, cSlot);
}
