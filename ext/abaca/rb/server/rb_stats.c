/* Engine#stats and #limits: figures for Ruby. docs/stats.md says what each means. */
#include "rb/server/rb_server.h"

#include <math.h>

#include "rb/page/rb_page.h"
#include "rb/rack/rb_lookup.h"
#include "rb/run/rb_hybrid.h"
#include "rb/run/rb_thread_pool.h"

static void put_count(VALUE hash, const char *name, uint64_t value) {
  ab_put(hash, name, ULL2NUM(value));
}

static uint64_t slow_now(const ab_slow *slow) {
  const ab_slow_kind *fibers = &slow->fibers, *threads = &slow->threads;
  uint64_t aside = (uint64_t)fibers->aside_count + threads->aside_count;
  return aside + fibers->held_count + threads->held_count;
}

static VALUE mode_stats(const ab_run *run, enum ab_mode mode, uint64_t queued) {
  const ab_mode_counts *counts = &run->rack.counts[mode];
  uint64_t in_flight = 0;
  for (const ab_list *node = run->rack.calls.next; node != &run->rack.calls; node = node->next) {
    in_flight += AB_CONTAINER_OF(node, ab_call, link)->runner->executor->mode == mode;
  }
  VALUE hash = rb_hash_new();
  put_count(hash, "in_flight", in_flight);
  put_count(hash, "queued", queued);
  put_count(hash, "rejected", counts->rejected);
  put_count(hash, "cancelled", counts->cancelled);
  put_count(hash, "swallowed", counts->swallowed);
  put_count(hash, "abandoned", counts->abandoned);
  return hash;
}

static VALUE stall_stats(const ab_run *run) {
  VALUE hash = rb_hash_new();
  ab_standby_stats stats = {0};
  if (run->rack.standby) stats = ab_standby_get_stats(run->rack.standby);
  ab_nsec longest = run->stalls.longest;
  put_count(hash, "count", run->stalls.count);
  ab_put(hash, "longest", ab_float_seconds(stats.longest > longest ? stats.longest : longest));
  return hash;
}

/* nil for a server without threads. */
static VALUE thread_stats(const ab_run *run) {
  if (!run->threads) return Qnil;
  ab_thread_pool_stats stats = ab_thread_pool_get_stats(run->threads);
  VALUE hash = rb_hash_new();
  put_count(hash, "threads", stats.threads);
  put_count(hash, "busy", stats.busy);
  put_count(hash, "waiting", stats.waiting);
  put_count(hash, "min", stats.min);
  put_count(hash, "max", stats.max);
  return hash;
}

static ab_histogram lag_of(const ab_server *server) {
  const ab_run *run = &server->run;
  ab_histogram lag = run->lag;
  if (server->running && run->main.loop) ab_histogram_join(&lag, ab_loop_lag(run->main.loop));
  return lag;
}

static VALUE lag_stats(const ab_histogram *lag) {
  VALUE hash = rb_hash_new(), buckets = rb_hash_new();
  uint64_t count = 0;
  for (unsigned i = 0; i < AB_HISTOGRAM_BUCKETS; i++) {
    ab_nsec end = ab_histogram_end(i);
    count += lag->counts[i];
    rb_hash_aset(buckets, end ? ab_float_seconds(end) : DBL2NUM(HUGE_VAL), ULL2NUM(lag->counts[i]));
  }
  put_count(hash, "count", count);
  ab_put(hash, "longest", ab_float_seconds(lag->longest));
  ab_put(hash, "buckets", buckets);
  return hash;
}

/* call-seq: stats -> Hash
 *
 * Counters since the engine was made, and its present state. Any thread may call it. */
static VALUE server_stats(VALUE self) {
  const ab_server *server = ab_server_own(self);
  const ab_run *run = &server->run;
  ab_figures stats = ab_engine_get_stats(run->rack.engine);
  ab_thread_pool_stats threads = {0};
  if (run->threads) threads = ab_thread_pool_get_stats(run->threads);
  /* What waits in the engine waits for whatever leads. */
  uint64_t for_fiber = threads.leads ? 0 : stats.queued;
  uint64_t for_thread = threads.leads ? stats.queued : threads.queued;
  stats.queued += threads.queued; /* the engine does not know of these */
  stats.left += threads.gone;
  ab_histogram lag = lag_of(server);
  VALUE result = rb_hash_new(), modes = rb_hash_new();
  ab_put_figures(result, &stats);
  put_count(result, "slow", slow_now(&run->slow));
  put_count(result, "slow_closed", run->slow.closed);
  ab_put(modes, "fiber", mode_stats(run, AB_MODE_FIBER, for_fiber));
  ab_put(modes, "thread", mode_stats(run, AB_MODE_THREAD, for_thread));
  if (run->hybrid) ab_put(modes, "hybrid", ab_hybrid_stats(run));
  ab_put(result, "modes", modes);
  ab_put(result, "thread_pool", thread_stats(run));
  ab_put(result, "stalls", stall_stats(run));
  ab_put(result, "loop_lag", lag_stats(&lag));
  return result;
}

static VALUE routes_of(const ab_route_load *load) {
  VALUE routes = rb_ary_new();
  for (size_t i = 0; i < AB_ROUTE_SHARES && load->shares[i].computed > 0; i++) {
    ab_view name = load->shares[i].route.name;
    VALUE text = name.len ? rb_str_new(name.ptr, (long)name.len) : Qnil;
    rb_ary_push(routes, rb_assoc_new(text, ab_float_seconds(load->shares[i].computed)));
  }
  return routes;
}

/* call-seq: saturation -> Hash or nil
 *
 * What requests that compute for 5 ms and more have done since the last call: `requests`, their
 * number; `computed`, seconds of CPU time; `waited`, how many had waited for 100 ms and more before
 * they began, and `longest`, seconds; `routes`, [[name or nil, seconds], ...], the heaviest first.
 * nil when nobody measures that. */
static VALUE server_saturation(VALUE self) {
  const ab_run *run = &ab_server_own(self)->run;
  if (!run->route_stats) return Qnil;
  ab_route_load load;
  ab_route_stats_take_load(run->route_stats, &load);
  ab_long_waits waits = ab_engine_take_long_waits(run->rack.engine);
  VALUE result = rb_hash_new();
  put_count(result, "requests", load.requests);
  ab_put(result, "computed", ab_float_seconds(load.computed));
  put_count(result, "waited", waits.count);
  ab_put(result, "longest", ab_float_seconds(waits.longest));
  ab_put(result, "routes", routes_of(&load));
  return result;
}

/* call-seq: limits -> Hash
 *
 * The limits in force where a listener has none of its own, by name. */
static VALUE server_limits(VALUE self) {
  const ab_limits *limits = ab_engine_limits(ab_server_own(self)->run.rack.engine);
  VALUE result = rb_hash_new();
#define AB_LIMIT_VALUE(name, value, unit, text) put_count(result, #name, limits->name);
  AB_LIMITS(AB_LIMIT_VALUE)
#undef AB_LIMIT_VALUE
  return result;
}

static VALUE limits_table(void) {
  VALUE table = rb_hash_new();
#define AB_LIMIT_ROW(name, value, unit, text)                                                      \
  ab_put(table, #name,                                                                             \
         rb_obj_freeze(rb_ary_new_from_args(3, ULL2NUM(value), frozen(unit), frozen(text))));
#define frozen(literal) rb_obj_freeze(rb_str_new_cstr(literal))
  AB_LIMITS(AB_LIMIT_ROW)
#undef frozen
#undef AB_LIMIT_ROW
  return rb_obj_freeze(table);
}

void ab_init_stats(VALUE cEngine) {
  rb_define_const(cEngine, "LIMITS", limits_table());
  rb_define_method(cEngine, "stats", server_stats, 0);
  rb_define_method(cEngine, "limits", server_limits, 0);
  rb_define_method(cEngine, "saturation", server_saturation, 0);
}
