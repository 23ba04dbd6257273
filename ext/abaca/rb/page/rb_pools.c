/* Abaca::Page::Pools: what a process writes of the app's pools in its slot
 * (lib/abaca/pool_gate.rb), and Slot#pools, which reads it. */
#include <unistd.h>

#include "os/fork_page.h"
#include "io/timer.h"
#include "rb/page/rb_page_parts.h"

/* A checkout costs two calls of these: they make no object. */
typedef struct rb_pools {
  ab_page *page; /* held; NULL: it is closed, and nothing is written */
  ab_page_app *app;
  ab_page_pool *pools;
  uint32_t count;
  pid_t owner;
  volatile uint32_t *guard; /* tells a forked process, which has not claimed the slot */
} rb_pools;

static void pools_close(rb_pools *own) {
  ab_page *page = own->page;
  own->page = NULL;
  if (page) ab_page_drop(page);
}

static void pools_free(void *ptr) {
  rb_pools *own = ptr;
  pools_close(own);
  ab_fork_page_fini(own->guard);
  xfree(own);
}

static const rb_data_type_t pools_type = {
    .wrap_struct_name = "Abaca::Page::Pools",
    .function = {.dfree = pools_free},
};

/* call-seq: new(slot) -> Pools
 *
 * Raises IOError; Abaca::Error unless this process has claimed the slot. */
static VALUE pools_new(VALUE klass, VALUE slot) {
  rb_pools *own;
  ab__slot_check_mine(slot);
  VALUE self = TypedData_Make_Struct(klass, rb_pools, &pools_type, own);
  ab_page *page = ab__slot_page(slot);
  ab_page_parts parts = ab_page_parts_of(page, ab_slot_index(slot));
  ab_page_hold(page);
  *own = (rb_pools){.page = page,
                    .app = &parts.slot->app,
                    .pools = parts.pools,
                    .count = parts.pool_count,
                    .owner = getpid(),
                    .guard = ab_fork_page_init()};
  return self;
}

/* NULL where nothing may be written. */
static rb_pools *open_pools(VALUE self) {
  rb_pools *own = rb_check_typeddata(self, &pools_type);
  return own->page && !ab_fork_page_forked(own->guard, own->owner) ? own : NULL;
}

/* NULL for a number that is none, and where nothing may be written. */
static ab_page_pool *pool_at(VALUE self, VALUE number) {
  const rb_pools *own = open_pools(self);
  size_t i = NUM2SIZET(number);
  return own && i < own->count ? &own->pools[i] : NULL;
}

/* call-seq: number(name) -> Integer or nil
 *
 * That of the pools of that name; nil if there are too many. */
static VALUE pools_number(VALUE self, VALUE name) {
  StringValue(name);
  rb_pools *own = open_pools(self);
  if (!own) return Qnil;
  ab_view view = {RSTRING_PTR(name), (size_t)RSTRING_LEN(name)};
  const ab_page_pool *pool = ab_page_pool_find(own->pools, own->count, &own->app->pools, view);
  RB_GC_GUARD(name);
  if (pool) return SIZET2NUM((size_t)(pool - own->pools));
  AB_ADD(own->app->pools_dropped, 1);
  return Qnil;
}

/* call-seq: size -> Integer
 *
 * How many names there are. */
static VALUE pools_size(VALUE self) {
  const rb_pools *own = open_pools(self);
  return UINT2NUM(own ? ab_page_pools_used(&own->app->pools, own->count) : 0);
}

/* call-seq: enter(number) -> Integer
 *
 * A checkout begins. Returns what #leave is to be given. */
static VALUE pools_enter(VALUE self, VALUE number) {
  ab_page_pool *pool = pool_at(self, number);
  if (!pool) return INT2FIX(0);
  ab_page_pool_enter(pool);
  return ULL2NUM(ab_clock_monotonic());
}

/* call-seq: leave(number, begun, got) -> nil
 *
 * It has ended, with a connection or without. */
static VALUE pools_leave(VALUE self, VALUE number, VALUE begun, VALUE got) {
  ab_page_pool *pool = pool_at(self, number);
  ab_nsec start = NUM2ULL(begun);
  if (!pool || start == 0) return Qnil;
  ab_page_pool_leave(pool);
  if (RTEST(got)) ab_cells_add(&pool->waits, ab_clock_monotonic() - start);
  return Qnil;
}

/* call-seq: time_out(number) -> nil
 *
 * The pool has given up a checkout. */
static VALUE pools_time_out(VALUE self, VALUE number) {
  ab_page_pool *pool = pool_at(self, number);
  if (pool) AB_ADD(pool->timeouts, 1);
  return Qnil;
}

/* call-seq: show(number, most, used, idle) -> nil
 *
 * What all pools of that name have together. */
static VALUE pools_show(VALUE self, VALUE number, VALUE most, VALUE used, VALUE idle) {
  uint32_t all = NUM2UINT(most), busy = NUM2UINT(used), free = NUM2UINT(idle);
  ab_page_pool *pool = pool_at(self, number);
  if (pool) ab_page_pool_show(pool, all, busy, free);
  return Qnil;
}

/* call-seq: close -> nil
 *
 * Nothing is written any more. */
static VALUE pools_end(VALUE self) {
  pools_close(rb_check_typeddata(self, &pools_type));
  return Qnil;
}

/* --- reading --- */

static void pools_put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

static VALUE pools_pool_of(const ab_page_pool *pool) {
  char name[AB_PAGE_POOL_NAME];
  ab_cells waits = {.sum = 0};
  ab_cells_join(&waits, &pool->waits);
  uint32_t most = AB_GET(pool->most), len = ab_page_pool_name(pool, name);
  VALUE hash = rb_hash_new();
  pools_put(hash, "pool", rb_utf8_str_new(name, len));
  pools_put(hash, "size", most ? UINT2NUM(most) : Qnil);
  pools_put(hash, "busy", UINT2NUM(AB_GET(pool->used)));
  pools_put(hash, "idle", UINT2NUM(AB_GET(pool->idle)));
  pools_put(hash, "waiting", UINT2NUM(AB_GET(pool->pending)));
  pools_put(hash, "timeouts", ULL2NUM(AB_GET(pool->timeouts)));
  pools_put(hash, "checkouts", ULL2NUM(ab_cells_count(&waits)));
  pools_put(hash, "time", ab__seconds(waits.sum));
  return hash;
}

/* call-seq: pools -> Array */
static VALUE slot_pools(VALUE self) {
  ab_page_parts parts = ab__slot_parts(self);
  uint32_t used = ab_page_pools_used(&parts.slot->app.pools, parts.pool_count);
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; i < used; i++) rb_ary_push(list, pools_pool_of(&parts.pools[i]));
  RB_GC_GUARD(self);
  return list;
}

void ab_init_pools(VALUE mAbaca) {
  VALUE cPage = rb_const_get(mAbaca, rb_intern("Page"));
  VALUE cSlot = rb_const_get(cPage, rb_intern("Slot"));
  VALUE cPools = rb_define_class_under(cPage, "Pools", rb_cObject);
  rb_undef_alloc_func(cPools);
  rb_define_singleton_method(cPools, "new", pools_new, 1);
  rb_define_method(cPools, "number", pools_number, 1);
  rb_define_method(cPools, "size", pools_size, 0);
  rb_define_method(cPools, "enter", pools_enter, 1);
  rb_define_method(cPools, "leave", pools_leave, 3);
  rb_define_method(cPools, "time_out", pools_time_out, 1);
  rb_define_method(cPools, "show", pools_show, 4);
  rb_define_method(cPools, "close", pools_end, 0);
  rb_define_method(cSlot, "pools", slot_pools, 0);
}
