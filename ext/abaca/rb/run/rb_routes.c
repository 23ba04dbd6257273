/* Routes, compared with a request's bytes before it has any Ruby object. */
#include "rb/run/rb_routes.h"

#include <string.h>

#include "base/bits.h"
#include "rb/rack/rb_lookup.h"
#include "rb/run/rb_hybrid.h"

enum ab_mode ab_mode_of(VALUE name) {
  if (name == ID2SYM(rb_intern("hybrid"))) return AB_MODE_HYBRID;
  return name == ID2SYM(rb_intern("thread")) ? AB_MODE_THREAD : AB_MODE_FIBER;
}

/* All patterns together, after what they are was checked: an exception would lose the memory. */
static size_t length_of(VALUE list) {
  size_t total = 0;
  for (long i = 0; i < RARRAY_LEN(list); i++) {
    VALUE entry = RARRAY_AREF(list, i);
    Check_Type(entry, T_ARRAY);
    Check_Type(rb_ary_entry(entry, 1), T_STRING);
    total += (size_t)RSTRING_LEN(RARRAY_AREF(entry, 1));
  }
  return total;
}

void ab_routes_init(ab_routes *routes, VALUE list) {
  *routes = (ab_routes){0};
  if (NIL_P(list)) return;
  Check_Type(list, T_ARRAY);
  size_t count = (size_t)RARRAY_LEN(list), bytes = length_of(list), size;
  if (!ab_mul_size(count, sizeof(ab_path_rule), &size) || !ab_add_size(size, bytes, &size)) {
    rb_memerror();
  }
  if (count == 0) return;
  routes->rules = ab_alloc(&ab_mem_libc, size);
  if (!routes->rules) rb_memerror();
  routes->count = count;
  char *at = (char *)(routes->rules + count);
  for (size_t i = 0; i < count; i++) {
    VALUE entry = RARRAY_AREF(list, (long)i), pattern = RARRAY_AREF(entry, 1);
    size_t len = (size_t)RSTRING_LEN(pattern);
    memcpy(at, RSTRING_PTR(pattern), len);
    routes->rules[i] = (ab_path_rule){{at, len}, ab_mode_of(RARRAY_AREF(entry, 0))};
    at += len;
  }
}

void ab_routes_fini(ab_routes *routes) {
  ab_free(&ab_mem_libc, routes->rules);
}

enum ab_mode ab_routes_mode(const ab_run *run, ab_view path, const ab_path_rule **rule) {
  const ab_routes *routes = &run->routes;
  *rule = ab_path_rule_find(routes->rules, routes->count, path);
  return *rule ? (enum ab_mode)(*rule)->value : run->mode;
}

static bool runs_on_thread(const ab_run *run, ab_view path) {
  if (!run->threads) return false;
  const ab_path_rule *rule;
  enum ab_mode mode = ab_routes_mode(run, path, &rule);
  if (mode == AB_MODE_HYBRID) return ab_route_stats_peek(run->route_stats, path);
  return mode == AB_MODE_THREAD;
}

/* On a fiber the app itself decides whether a client that asks may send its body. */
static enum ab_buffering buffering_rule(void *ctx, ab_view path) {
  const ab_run *run = ctx;
  const ab_routes *streams = &run->streams;
  if (ab_path_rule_find(streams->rules, streams->count, path)) return AB_BUFFER_NOT;
  return runs_on_thread(run, path) ? AB_BUFFER_ANY : AB_BUFFER_UNASKED;
}

void ab_routes_buffer_bodies(ab_run *run, VALUE options) {
  ab_routes_init(&run->streams, ab_option(options, "stream_bodies"));
  VALUE most = ab_option(options, "max_body_memory_total");
  if (!NIL_P(most)) ab_engine_buffer_bodies(run->rack.engine, buffering_rule, run, NUM2ULL(most));
}
