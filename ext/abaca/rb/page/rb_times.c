/* Abaca::Page::Slot: series of times, and history. */
#include "io/timer.h"
#include "page/look.h"
#include "rb/page/rb_page_parts.h"

static void put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* --- series --- */

static void put_cells(VALUE hash, const ab_cells *cells) {
  ab_cells_view view = ab_cells_view_of(cells);
  VALUE counts = rb_ary_new_capa(AB_CELLS_PLAIN), buckets = rb_hash_new();
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++) rb_ary_push(counts, ULL2NUM(view.plain[i]));
  for (unsigned i = 0; i < AB_CELLS_FINE; i++) {
    if (view.fine[i])
      rb_hash_aset(buckets, INT2FIX((int)i + AB_CELLS_FINE_FIRST), ULL2NUM(view.fine[i]));
  }
  put(hash, "count", ULL2NUM(view.count));
  put(hash, "sum", ab__seconds(cells->sum));
  put(hash, "counts", counts);
  put(hash, "buckets", buckets);
  put(hash, "least", ULL2NUM(view.least));
  put(hash, "most", ULL2NUM(view.most));
}

/* Requests have methods; what is counted as others has lost its own. */
static VALUE method_of(ab_series_key key) {
  if (key.kind != AB_SERIES_REQUEST) return Qnil;
  return rb_usascii_str_new_cstr(ab_row_method_name(key.method));
}

static VALUE series_of(const ab_page_parts *parts, ab_series_key key, bool other,
                       const ab_cells *cells) {
  VALUE hash = rb_hash_new();
  put(hash, "kind", ID2SYM(rb_intern(ab_series_kind_name(key.kind))));
  put(hash, "route", ab__route_name(parts, key.route));
  put(hash, "method", method_of(key));
  put(hash, "status", key.status ? UINT2NUM(key.status) : Qnil);
  put(hash, "other", other ? Qtrue : Qfalse);
  put_cells(hash, cells);
  return hash;
}

static void push_series(VALUE list, const ab_page_parts *parts, uint32_t i) {
  uint32_t count = parts->series_count, other = parts->route_count - 1;
  ab_series_key key;
  ab_cells cells = {.sum = 0};
  if (!ab_series_key_of(parts->series, count, i, other, &key)) return;
  ab_cells_join(&cells, &parts->series[i].cells);
  if (ab_cells_count(&cells) == 0) return;
  rb_ary_push(list, series_of(parts, key, i + AB_SERIES_KIND_COUNT >= count, &cells));
}

/* call-seq: series -> Array
 *
 * Those in which a time was counted. */
static VALUE slot_series(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  uint32_t count = parts.series_count, used = ab_series_used(&parts.slot->app.series, count);
  VALUE list = rb_ary_new();
  for (uint32_t i = ab_series_skip(0, used, count); i < count;
       i = ab_series_skip(i + 1, used, count))
    push_series(list, &parts, i);
  RB_GC_GUARD(self);
  return list;
}

/* --- history --- */

static VALUE record_of(const ab_history_record *record, ab_nsec at, ab_nsec offset) {
  VALUE hash = rb_hash_new();
  put(hash, "tick", UINT2NUM(record->tick));
  put(hash, "at", ab__time(at, offset));
#define PUT_VALUE(name) put(hash, #name, UINT2NUM(record->values.name));
  AB_HISTORY(PUT_VALUE, PUT_VALUE, PUT_VALUE)
#undef PUT_VALUE
  return hash;
}

/* call-seq: records(tens) -> Array
 *
 * The oldest first. A tick that is missing has no record. */
static VALUE slot_records(VALUE self, VALUE tens) {
  ab_page_parts parts = ab__slot_parts(self);
  ab_nsec offset = ab__clock_offset(self), width = RTEST(tens) ? 10 : 1;
  const ab_history_record *records = RTEST(tens) ? parts.tens : parts.seconds;
  uint32_t count = RTEST(tens) ? parts.ten_count : parts.second_count;
  uint32_t last = ab_history_second(ab_clock_monotonic()) / (uint32_t)width;
  VALUE list = rb_ary_new();
  for (uint32_t i = count; i > 0; i--) {
    uint32_t tick = last + 1 - i;
    ab_history_record record;
    if (tick && tick <= last && ab_history_load(records, count, tick, &record))
      rb_ary_push(list, record_of(&record, tick * width * AB_NSEC_PER_SEC, offset));
  }
  RB_GC_GUARD(self);
  return list;
}

void ab__init_times(VALUE cSlot) {
  rb_define_method(cSlot, "series", slot_series, 0);
  rb_define_private_method(cSlot, "records", slot_records, 1);
}
