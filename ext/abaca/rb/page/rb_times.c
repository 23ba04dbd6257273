/* Abaca::Page::Slot: series of times, and history. */
#include "io/timer.h"
#include "page/sums.h"
#include "rb/page/rb_page_parts.h"

static void times_put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* --- series --- */

static void put_buckets(VALUE hash, const ab_cells_view *view) {
  VALUE buckets = rb_hash_new();
  for (unsigned i = 0; i < AB_CELLS_FINE; i++) {
    if (view->fine[i])
      rb_hash_aset(buckets, INT2FIX((int)i + AB_CELLS_FINE_FIRST), ULL2NUM(view->fine[i]));
  }
  times_put(hash, "buckets", buckets);
  times_put(hash, "least", ULL2NUM(view->least));
  times_put(hash, "most", ULL2NUM(view->most));
}

static void put_cells(VALUE hash, const ab_cells *cells, bool fine) {
  ab_cells_view view = ab_cells_view_of(cells);
  VALUE counts = rb_ary_new_capa(AB_CELLS_PLAIN);
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++) rb_ary_push(counts, ULL2NUM(view.plain[i]));
  times_put(hash, "count", ULL2NUM(view.count));
  times_put(hash, "sum", ab__seconds(cells->sum));
  times_put(hash, "counts", counts);
  if (fine) put_buckets(hash, &view);
}

/* Requests have methods; what is counted as others has lost its own. */
static VALUE method_of(ab_series_key key) {
  if (key.kind != AB_SERIES_REQUEST) return Qnil;
  return rb_usascii_str_new_cstr(ab_row_method_name(key.method));
}

static VALUE times_series_of(ab_series_key key, VALUE route, const ab_cells *cells, bool fine) {
  VALUE hash = rb_hash_new();
  times_put(hash, "kind", ID2SYM(rb_intern(ab_series_kind_name(key.kind))));
  times_put(hash, "route", route);
  times_put(hash, "method", method_of(key));
  times_put(hash, "status", key.status ? UINT2NUM(key.status) : Qnil);
  put_cells(hash, cells, fine);
  return hash;
}

static VALUE route_in(const ab_sums *sums, uint32_t route) {
  if (route == AB_SUMS_OTHER) return rb_usascii_str_new_cstr("_OTHER");
  if (route >= sums->name_count) return Qnil;
  return rb_utf8_str_new(sums->names[route].text, sums->names[route].len);
}

typedef struct summing {
  ab_sums sums;
  ab_page *page;
  uint32_t from, to; /* slots */
  bool fine;
} summing;

static VALUE sum_up(VALUE arg) {
  summing *self = (summing *)arg;
  for (uint32_t i = self->from; i < self->to; i++) {
    ab_page_parts parts = ab_page_parts_to_read(self->page, i);
    if (ab_sums_add(&self->sums, &parts) != AB_OK) rb_memerror();
  }
  VALUE list = rb_ary_new_capa(self->sums.count);
  for (uint32_t i = 0; i < self->sums.count; i++) {
    const ab_series *one = &self->sums.series[i];
    rb_ary_push(list, times_series_of(one->key, route_in(&self->sums, one->key.route), &one->cells,
                                      self->fine));
  }
  return list;
}

static VALUE free_sums(VALUE arg) {
  ab_sums_fini(&((summing *)arg)->sums);
  return Qnil;
}

static VALUE series_in(ab_page *page, uint32_t from, uint32_t to, VALUE fine) {
  summing summing = {.page = page, .from = from, .to = to, .fine = RTEST(fine)};
  ab_sums_init(&summing.sums, &ab_mem_libc);
  return rb_ensure(sum_up, (VALUE)&summing, free_sums, (VALUE)&summing);
}

/* call-seq: times(buckets) -> Array
 *
 * Those in which a time was counted. */
static VALUE slot_times(VALUE self, VALUE buckets) {
  uint32_t index = ab_slot_index(self);
  VALUE list = series_in(ab__slot_page(self), index, index + 1, buckets);
  RB_GC_GUARD(self);
  return list;
}

/* call-seq: times(buckets) -> Array
 *
 * Those of all slots, added. */
static VALUE page_times(VALUE self, VALUE buckets) {
  ab_page *page = ab__page_of(self);
  VALUE list = series_in(page, 0, ab_page_size(page), buckets);
  RB_GC_GUARD(self);
  return list;
}

/* --- history --- */

static VALUE record_of(const ab_history_record *record, ab_nsec at, ab_nsec offset) {
  VALUE hash = rb_hash_new();
  times_put(hash, "tick", UINT2NUM(record->tick));
  times_put(hash, "at", ab__time(at, offset));
#define PUT_VALUE(name) times_put(hash, #name, UINT2NUM(record->values.name));
  AB_HISTORY(PUT_VALUE, PUT_VALUE, PUT_VALUE)
#undef PUT_VALUE
  return hash;
}

/* call-seq: records(tens, most) -> Array
 *
 * Those of the last `most` ticks, the oldest first. A tick that is missing has no record. */
static VALUE slot_records(VALUE self, VALUE tens, VALUE most) {
  ab_page_parts parts = ab__slot_parts(self);
  size_t limit = NUM2SIZET(most);
  ab_nsec offset = ab__clock_offset(self), width = RTEST(tens) ? 10 : 1;
  const ab_history_record *records = RTEST(tens) ? parts.tens : parts.seconds;
  uint32_t count = RTEST(tens) ? parts.ten_count : parts.second_count;
  uint32_t last = ab_history_second(ab_clock_monotonic()) / (uint32_t)width;
  VALUE list = rb_ary_new();
  for (uint32_t i = limit < count ? (uint32_t)limit : count; i > 0; i--) {
    uint32_t tick = last + 1 - i;
    ab_history_record record;
    if (tick <= last && ab_history_load(records, count, tick, &record))
      rb_ary_push(list, record_of(&record, tick * width * AB_NSEC_PER_SEC, offset));
  }
  RB_GC_GUARD(self);
  return list;
}

void ab__init_times(VALUE cPage, VALUE cSlot) {
  rb_define_private_method(cPage, "times", page_times, 1);
  rb_define_private_method(cSlot, "times", slot_times, 1);
  rb_define_private_method(cSlot, "records", slot_records, 2);
}
