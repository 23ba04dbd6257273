/* What mode :hybrid decides and tells: see rb_hybrid.h. */
#include "rb/run/rb_hybrid.h"

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"

/* --- what a request runs on --- */

bool ab_hybrid_takes_thread(ab_driver *driver) {
  ab_route_stats *route_stats = driver->run->route_stats;
  ab_taken *next = &driver->next;
  if (next->route.serial == 0)
    next->route = ab_route_stats_path(route_stats, next->head.request->path);
  return ab_route_stats_on_threads(route_stats, next->route);
}

void ab_hybrid_end(const ab_call *call, bool thread, ab_nsec longest) {
  ab_run *run = ab_run_of(call->rack);
  if (!run->hybrid) return;
  enum ab_route_move move =
      ab_route_stats_note(run->route_stats, call->measure.route, thread, longest);
  /* It has to be told, which may be another's business. */
  if (AB_UNLIKELY(move != AB_ROUTE_STAYS)) ab_rack_tell_leader(&run->rack);
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
