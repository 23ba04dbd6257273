/* What requests compute: see rb_costs.h. */
#include "rb/run/rb_costs.h"

#include <string.h>

#include "os/cpu_time.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/run/rb_hybrid.h"

/* A request that has run for longer, where none is measured, is worth a look. */
#define HEAVY (3 * AB_NSEC_PER_MS)

/* --- settings --- */

void ab_costs_init(ab_run *run, VALUE options) {
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

/* --- measuring --- */

static bool on_thread(const ab_call *call) {
  return call->runner->executor->mode == AB_MODE_THREAD;
}

/* On a thread, the time for which it computed. */
static ab_nsec computed(const ab_call *call) {
  ab_nsec now = ab_os_thread_cpu_time(), before = call->measure.computed;
  return now > before ? now - before : 0;
}

void ab_costs_end(const ab_call *call, ab_work_times times) {
  ab_run *run = ab_run_of(call->rack);
  bool thread = on_thread(call);
  if (AB_UNLIKELY(!thread && !call->work)) return; /* there was no memory to measure it */
  if (thread) times.longest = times.total = computed(call);
  ab_route_stats_charge(run->route_stats, call->measure.route, times.total);
  ab_hybrid_end(call, thread, times.longest);
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
  /* Or some more: those that wait for a thread have not begun. */
  uint64_t begun = figures.requests, in_app = figures.in_app;
  ab_route_stats_pass(route_stats, begun > in_app ? begun - in_app : 0);
  if (path.ptr) ab_route_stats_charge(route_stats, ab_route_stats_path(route_stats, path), ran);
  return Qnil;
}

/* What it has computed of the time for which it has run. What the standby has seen it compute is
 * too little, since the first look is late; the time less what others were seen to take is too
 * much. */
static ab_nsec computed_of(const ab_call *call, ab_nsec ran) {
  ab_gate *gate = &call->rack->lead.gate;
  const ab_contender *contender = &call->runner->participant.contender;
  ab_nsec seen = ab_gate_used_here(gate, contender);
  if (ran == UINT64_MAX || seen >= ran) return seen < ran ? seen : ran;
  ab_nsec lost = ab_gate_lost_here(gate, contender, true);
  ab_nsec most = ran > lost ? ran - lost : 0;
  return seen > most ? seen : most;
}

void ab_costs_learn(const ab_call *call, ab_nsec ran) {
  if (ran < HEAVY || !ab_run_of(call->rack)->route_stats || !RB_TYPE_P(call->env, T_HASH)) return;
  ran = computed_of(call, ran);
  if (ran < HEAVY) return;
  ab_quietly(learn, (VALUE)(void *[]){(void *)call, &ran});
}
