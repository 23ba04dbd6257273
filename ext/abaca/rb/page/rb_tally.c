/* Abaca::Page::Tally: what all slots of a page have counted together. */
#include "page/look.h"
#include "page/tally.h"

#include <stdio.h>

#include "rb/page/rb_page_parts.h"

typedef struct rb_tally {
  ab_tally tally; /* without `mem`: not made yet */
  VALUE page;
} rb_tally;

static void tally_mark(void *ptr) {
  rb_gc_mark(((rb_tally *)ptr)->page);
}

static void tally_free(void *ptr) {
  rb_tally *own = ptr;
  if (own->tally.mem) ab_tally_fini(&own->tally);
  xfree(own);
}

static size_t tally_size(const void *ptr) {
  const rb_tally *own = ptr;
  return sizeof(*own) + own->tally.series_room * sizeof(*own->tally.series) +
         (own->tally.pools ? AB_TALLY_POOLS * sizeof(*own->tally.pools) : 0);
}

static const rb_data_type_t tally_type = {
    .wrap_struct_name = "Abaca::Page::Tally",
    .function = {.dmark = tally_mark, .dfree = tally_free, .dsize = tally_size},
};

/* call-seq: new(page, routes) -> Tally
 *
 * Raises NoMemoryError, IOError. */
static VALUE tally_new(VALUE klass, VALUE page, VALUE routes) {
  uint32_t most = NUM2UINT(routes);
  rb_tally *own;
  ab__page_of(page);
  VALUE self = TypedData_Make_Struct(klass, rb_tally, &tally_type, own);
  own->page = page;
  if (ab_tally_init(&own->tally, &ab_mem_libc, most) != AB_OK) {
    own->tally.mem = NULL;
    rb_memerror();
  }
  return self;
}

static void tally_put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

static VALUE totals_of(const ab_tally_totals *totals) {
  VALUE hash = rb_hash_new();
  tally_put(hash, "ended", ULL2NUM(totals->ended));
  tally_put(hash, "failed", ULL2NUM(totals->failed));
  tally_put(hash, "sums", ab__state_sums(totals->sums));
  tally_put(hash, "stalls", ULL2NUM(totals->stalls));
  tally_put(hash, "stall_time", ab__seconds(totals->stall_time));
  tally_put(hash, "rows_missed", ULL2NUM(totals->missed));
  tally_put(hash, "routes_dropped", ULL2NUM(totals->routes_dropped));
  tally_put(hash, "series_dropped", ULL2NUM(totals->series_dropped));
  tally_put(hash, "pools_dropped", ULL2NUM(totals->pools_dropped));
  tally_put(hash, "gc_time", ab__seconds(totals->gc_time));
  tally_put(hash, "gc_minor", ULL2NUM(totals->gc_minor));
  tally_put(hash, "gc_major", ULL2NUM(totals->gc_major));
  return hash;
}

static VALUE name_of(const ab_tally *tally, uint32_t number) {
  const ab_tally_route *route = &tally->routes[number];
  if (number == tally->most) return rb_usascii_str_new_cstr("_OTHER");
  return rb_utf8_str_new(route->name, route->name_len);
}

static VALUE tally_route_of(const ab_tally *tally, uint32_t number) {
  const ab_tally_route *route = &tally->routes[number];
  VALUE hash = rb_hash_new();
  tally_put(hash, "route", name_of(tally, number));
  tally_put(hash, "requests", ULL2NUM(route->requests));
  tally_put(hash, "errors", ULL2NUM(route->errors));
  tally_put(hash, "stalls", ULL2NUM(route->stalls));
  tally_put(hash, "stall_time", ab__seconds(route->stall_time));
  tally_put(hash, "sums", ab__state_sums(route->sums));
  return hash;
}

static VALUE routes_of(const ab_tally *tally) {
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; i < tally->names; i++) rb_ary_push(list, tally_route_of(tally, i));
  if (tally->routes[tally->most].requests) rb_ary_push(list, tally_route_of(tally, tally->most));
  return list;
}

/* [trace, span, seconds, when] for each bucket, or nil: the ids by hexadecimal digits. */
static VALUE exemplar_of(const ab_exemplar *exemplar, ab_nsec offset) {
  char trace[2 * sizeof(exemplar->trace) + 1], span[2 * sizeof(exemplar->span) + 1];
  for (size_t i = 0; i < sizeof(exemplar->trace); i++)
    snprintf(trace + 2 * i, 3, "%02x", exemplar->trace[i]);
  for (size_t i = 0; i < sizeof(exemplar->span); i++)
    snprintf(span + 2 * i, 3, "%02x", exemplar->span[i]);
  VALUE values[] = {rb_usascii_str_new(trace, sizeof(trace) - 1),
                    rb_usascii_str_new(span, sizeof(span) - 1), ab__seconds(exemplar->time),
                    ab__seconds(exemplar->at + offset)};
  return rb_ary_new_from_values(AB_ARRAY_LEN(values), values);
}

/* nil where there are none. */
static VALUE exemplars_of(const ab_exemplars *exemplars, ab_nsec offset) {
  VALUE list = Qnil;
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++) {
    if (exemplars->of[i].at == 0) continue;
    if (NIL_P(list)) list = rb_ary_new();
    rb_ary_store(list, i, exemplar_of(&exemplars->of[i], offset));
  }
  return list;
}

static void push_series(VALUE list, VALUE kind, VALUE method, VALUE route, VALUE status,
                        const ab_tally_series *series, ab_nsec offset) {
  uint64_t below = 0;
  const ab_cells *cells = &series->cells;
  ab_cells_view view = ab_cells_view_of(cells);
  if (view.count == 0) return;
  VALUE counts = rb_ary_new_capa(AB_CELLS_PLAIN);
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++)
    rb_ary_push(counts, ULL2NUM(below += view.plain[i]));
  VALUE exemplars = exemplars_of(&series->exemplars, offset);
  VALUE values[] = {kind, method, route, status, ab__seconds(cells->sum), counts, exemplars};
  rb_ary_push(list, rb_ary_new_from_values(AB_ARRAY_LEN(values), values));
}

static VALUE tally_kind_of(unsigned kind) {
  return ID2SYM(rb_intern(ab_series_kind_name((enum ab_series_kind)kind)));
}

static VALUE tally_series_of(const ab_tally *tally, ab_nsec offset) {
  VALUE list = rb_ary_new_capa(tally->series_count), names = rb_ary_new(), methods = rb_ary_new();
  for (uint32_t i = 0; i < tally->names; i++) rb_ary_push(names, name_of(tally, i));
  rb_ary_store(names, tally->most, name_of(tally, tally->most));
  for (unsigned i = 0; i < AB_ROW_METHOD_COUNT; i++)
    rb_ary_push(methods, rb_usascii_str_new_cstr(ab_row_method_name((enum ab_row_method)i)));
  for (uint32_t i = 0; i < tally->series_count; i++) {
    ab_series_key key = tally->series[i].key;
    VALUE route = key.route <= tally->most ? rb_ary_entry(names, key.route) : Qnil;
    VALUE method = key.kind == AB_SERIES_REQUEST ? rb_ary_entry(methods, key.method) : Qnil;
    push_series(list, tally_kind_of(key.kind), method, route,
                key.status ? UINT2NUM(key.status) : Qnil, &tally->series[i], offset);
  }
  return list;
}

static VALUE tally_pool_of(const ab_tally_pool *pool) {
  ab_cells_view view = ab_cells_view_of(&pool->waits);
  uint64_t below = 0;
  VALUE counts = rb_ary_new_capa(AB_CELLS_PLAIN), hash = rb_hash_new();
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++)
    rb_ary_push(counts, ULL2NUM(below += view.plain[i]));
  tally_put(hash, "pool", rb_utf8_str_new(pool->name, pool->name_len));
  tally_put(hash, "size", ULL2NUM(pool->most));
  tally_put(hash, "busy", ULL2NUM(pool->used));
  tally_put(hash, "idle", ULL2NUM(pool->idle));
  tally_put(hash, "waiting", ULL2NUM(pool->pending));
  tally_put(hash, "timeouts", ULL2NUM(pool->timeouts));
  tally_put(hash, "time", ab__seconds(pool->waits.sum));
  tally_put(hash, "counts", counts);
  return hash;
}

static VALUE pools_of(const ab_tally *tally) {
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; i < tally->pool_count; i++)
    rb_ary_push(list, tally_pool_of(&tally->pools[i]));
  return list;
}

/* Requests that engines have answered themselves, by status; nil: there was none. */
static VALUE faults_of(const ab_figures *figures) {
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_FAULT_COUNT; i++) {
    int status = ab_fault_status((enum ab_fault)i);
    rb_hash_aset(hash, status ? INT2FIX(status) : Qnil, ULL2NUM(figures->faults[i]));
  }
  return hash;
}

/* Requests that are in the app or wait for it, by method. */
static VALUE methods_of(const ab_page *page) {
  ab_page_methods all = {{0}};
  for (uint32_t i = 0; i < ab_page_size(page); i++) {
    ab_page_parts parts = ab_page_parts_to_read(page, i);
    if (ab_page_is_live(ab_page_look(parts.slot).state)) ab_page_count_methods(&parts, &all);
  }
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < AB_ROW_METHOD_COUNT; i++) {
    const char *name = ab_row_method_name((enum ab_row_method)i);
    if (all.now[i]) rb_hash_aset(hash, rb_usascii_str_new_cstr(name), UINT2NUM(all.now[i]));
  }
  return hash;
}

/* call-seq: take -> Hash
 *
 * Raises NoMemoryError, IOError. */
static VALUE tally_take(VALUE self) {
  rb_tally *own = rb_check_typeddata(self, &tally_type);
  if (ab_tally_take(&own->tally, ab__page_of(own->page)) != AB_OK) rb_memerror();
  VALUE hash = rb_hash_new();
  tally_put(hash, "totals", totals_of(&own->tally.totals));
  tally_put(hash, "routes", routes_of(&own->tally));
  tally_put(hash, "routeless", ab__state_sums(own->tally.routeless));
  tally_put(hash, "pools", pools_of(&own->tally));
  ab_page *page = ab__page_of(own->page);
  ab_figures sums = ab_page_sums(page);
  tally_put(hash, "faults", faults_of(&sums));
  tally_put(hash, "methods", methods_of(page));
  const ab_page_head *head = ab_page_head_of(ab__page_of(own->page));
  tally_put(hash, "series", tally_series_of(&own->tally, head->made_at_unix - head->made_at));
  RB_GC_GUARD(self);
  return hash;
}

/* call-seq: buckets(text, start, ends, counts, notes) -> text
 *
 * Adds a line for each count: a scrape has thousands of them. At its end stands the note of its
 * bucket, if there are any. */
static VALUE tally_buckets(VALUE klass, VALUE text, VALUE start, VALUE ends, VALUE counts,
                           VALUE notes) {
  StringValue(text);
  StringValue(start);
  if (!NIL_P(notes)) Check_Type(notes, T_ARRAY);
  Check_Type(ends, T_ARRAY);
  Check_Type(counts, T_ARRAY);
  for (long i = 0; i < RARRAY_LEN(counts) && i < RARRAY_LEN(ends); i++) {
    char number[24];
    VALUE end = rb_ary_entry(ends, i);
    StringValue(end);
    int len = snprintf(number, sizeof(number), "%llu", NUM2ULL(rb_ary_entry(counts, i)));
    rb_str_cat(text, RSTRING_PTR(start), RSTRING_LEN(start));
    rb_str_cat(text, RSTRING_PTR(end), RSTRING_LEN(end));
    rb_str_cat(text, number, len);
    VALUE note = NIL_P(notes) ? Qnil : rb_ary_entry(notes, i);
    if (RB_TYPE_P(note, T_STRING)) rb_str_cat(text, RSTRING_PTR(note), RSTRING_LEN(note));
    rb_str_cat(text, "\n", 1);
  }
  (void)klass;
  return text;
}

static VALUE tally_bounds(void) {
  VALUE list = rb_ary_new();
  for (unsigned i = 0; i < AB_CELLS_PLAIN - 1; i++)
    rb_ary_push(list, ab__seconds(ab_cells_plain_end(i)));
  return rb_obj_freeze(list);
}

void ab_init_tally(VALUE mAbaca) {
  VALUE cPage = rb_const_get(mAbaca, rb_intern("Page"));
  VALUE cTally = rb_define_class_under(cPage, "Tally", rb_cObject);
  rb_undef_alloc_func(cTally);
  rb_define_singleton_method(cTally, "new", tally_new, 2);
  rb_define_singleton_method(cTally, "buckets", tally_buckets, 5);
  rb_define_method(cTally, "take", tally_take, 0);
  rb_define_const(cTally, "BOUNDS", tally_bounds());
}
