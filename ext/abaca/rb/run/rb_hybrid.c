/* What mode :hybrid measures and tells: see rb_hybrid.h. */
#include "rb/run/rb_hybrid.h"

#include <string.h>

#include "os/cpu_time.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"

/* A request that has run for longer, where none is measured, is worth a look. */
#define HEAVY (3 * AB_NSEC_PER_MS)

/* --- settings --- */

void ab_hybrid_init(ab_run *run, VALUE options) {
  VALUE threshold = ab_option(options, "hybrid_threshold");
  ab_route_stats_options route_stats = {.seed = rb_hash_start(0)}; /* Ruby's own secret */
  if (!NIL_P(threshold)) {
    run->hybrid = true;
    route_stats.threshold = (ab_nsec)(NUM2DBL(threshold) * (double)AB_NSEC_PER_SEC);
    route_stats.least = NUM2UINT(ab_option(options, "hybrid_requests"));
  } else if (run->stalls.options.stall_after == AB_STALLS_NEVER) {
    return; /* nothing is made of it */
  }
  const ab_routes *routes = &run->routes;
  run->route_stats = ab_route_stats_init(&ab_mem_libc, &route_stats, routes->rules, routes->count);
  if (!run->route_stats) rb_memerror();
  if (run->stalls.options.stall_after != AB_STALLS_NEVER)
    ab_engine_weigh(run->rack.engine, run->route_stats);
}

/* --- what a request runs on --- */

bool ab_hybrid_takes_thread(ab_driver *driver) {
  ab_route_stats *route_stats = driver->run->route_stats;
  ab_taken *next = &driver->next;
  if (next->route.serial == 0)
    next->route = ab_route_stats_path(route_stats, next->head.request->path);
  return ab_route_stats_on_threads(route_stats, next->route);
}

/* --- measuring --- */

static bool on_thread(const ab_call *call) {
  return call->runner->executor->mode == AB_MODE_THREAD;
}

/* On a thread, the time for which it computed. */
static ab_nsec computed(const ab_call *call) {
  ab_nsec now = ab_os_thread_cpu_time(), before = call->measure.computed;
  return now > before ? now - before : 0;
}

void ab_hybrid_end(const ab_call *call, ab_work_times times) {
  ab_run *run = ab_run_of(call->rack);
  bool thread = on_thread(call);
  if (AB_UNLIKELY(!thread && !call->work)) return; /* there was no memory to measure it */
  if (thread) times.longest = times.total = computed(call);
  ab_route_stats_charge(run->route_stats, call->measure.route, times.total);
  if (!run->hybrid) return;
  enum ab_route_move move =
      ab_route_stats_note(run->route_stats, call->measure.route, thread, times.longest);
  /* It has to be told, which may be another's business. */
  if (AB_UNLIKELY(move != AB_ROUTE_STAYS)) ab_rack_tell_leader(&run->rack);
}

/* The target of the request as it came, without the query. */
static ab_view path_of(const ab_call *call) {
  VALUE target = rb_hash_lookup(call->env, rb_str_new_cstr("REQUEST_URI"));
  if (!RB_TYPE_P(target, T_STRING)) return (ab_view){NULL, 0};
  ab_view path = {RSTRING_PTR(target), (size_t)RSTRING_LEN(target)};
  const char *query = memchr(path.ptr, '?', path.len);
  if (query) path.len = (size_t)(query - path.ptr);
  return path;
}

static VALUE learn(VALUE arg) {
  const ab_call *call = ((void **)arg)[0];
  ab_nsec ran = *(const ab_nsec *)((void **)arg)[1];
  ab_route_stats *route_stats = ab_run_of(call->rack)->route_stats;
  ab_view path = path_of(call);
  ab_figures figures = ab_engine_get_stats(call->rack->engine);
  ab_route_stats_pass(route_stats, figures.requests - figures.in_app);
  if (path.ptr) ab_route_stats_charge(route_stats, ab_route_stats_path(route_stats, path), ran);
  return Qnil;
}

void ab_hybrid_learn(const ab_call *call, ab_nsec ran) {
  if (ran < HEAVY || !ab_run_of(call->rack)->route_stats || !RB_TYPE_P(call->env, T_HASH)) return;
  ab_nsec computed =
      ab_gate_used_here(&call->rack->lead.gate, &call->runner->participant.contender);
  if (computed < ran) ran = computed;
  if (ran < HEAVY) return;
  ab_quietly(learn, (VALUE)(void *[]){(void *)call, &ran});
}

/* --- telling --- */

static VALUE name_of(const ab_route_info *info) {
  return info->name.len ? rb_str_new(info->name.ptr, (long)info->name.len) : Qnil;
}

static VALUE log_move(VALUE arg) {
  const ab_run *run = ((void **)arg)[0];
  const ab_route_info *info = ((void **)arg)[1];
  static const char *const moves[] = {[AB_ROUTE_TO_THREADS] = "thread",
                                      [AB_ROUTE_TO_FIBERS] = "fiber",
                                      [AB_ROUTE_FORGOTTEN] = "forgotten"};
  return rb_funcall(run->rack.log, rb_intern("moved"), 4, name_of(info),
                    ID2SYM(rb_intern(moves[info->move])), ab_float_seconds(info->p95),
                    UINT2NUM(info->count));
}

void ab_hybrid_log(ab_run *run) {
  for (ab_route_info info; ab_route_stats_next_move(run->route_stats, &info);) {
    ab_quietly(log_move, (VALUE)(void *[]){run, &info});
  }
}

VALUE ab_hybrid_stats(const ab_run *run) {
  VALUE hash = rb_hash_new(), routes = rb_ary_new();
  ab_route_totals stats = ab_route_stats_get_totals(run->route_stats);
  ab_put(hash, "promoted", ULL2NUM(stats.promoted));
  ab_put(hash, "demoted", ULL2NUM(stats.demoted));
  size_t nth = 0;
  for (ab_route_info info; ab_route_stats_next_promoted(run->route_stats, &nth, &info);) {
    VALUE route = rb_hash_new();
    ab_put(route, "path", name_of(&info));
    ab_put(route, "p95", ab_float_seconds(info.p95));
    ab_put(route, "requests", UINT2NUM(info.count));
    rb_ary_push(routes, route);
  }
  ab_put(hash, "routes", routes);
  return hash;
}
