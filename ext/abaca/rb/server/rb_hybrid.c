/* What mode :hybrid measures and tells: see rb_hybrid.h. */
#include "rb/server/rb_hybrid.h"

#include "rb/server/rb_gang.h"
#include "rb/server/rb_spare.h"

/* --- settings --- */

void ab_hybrid_init(ab_server *server, VALUE options) {
  VALUE threshold = ab_server_option(options, "hybrid_threshold");
  if (NIL_P(threshold)) return;
  ab_ledger_options ledger = {
      .threshold = (ab_nsec)(NUM2DBL(threshold) * (double)AB_NSEC_PER_SEC),
      .least = NUM2UINT(ab_server_option(options, "hybrid_requests")),
      .seed = rb_hash_start(0), /* Ruby's own secret */
  };
  const ab_routes *routes = &server->routes;
  server->ledger = ab_ledger_init(&ab_mem_libc, &ledger, routes->rules, routes->count);
  if (!server->ledger) rb_memerror();
}

/* --- what a request runs on --- */

bool ab_hybrid_takes_thread(ab_runner *runner, const ab_path_rule *rule) {
  ab_server *server = runner->server;
  ab_ledger *ledger = server->ledger;
  runner->next_route = rule ? ab_ledger_rule(ledger, (size_t)(rule - server->routes.rules))
                            : ab_ledger_path(ledger, runner->next_request->path);
  return ab_ledger_on_threads(ledger, runner->next_route);
}

bool ab_hybrid_will_take_thread(const ab_server *server, const ab_path_rule *rule, ab_view path) {
  ab_ledger *ledger = server->ledger;
  if (!rule) return ab_ledger_peek(ledger, path);
  return ab_ledger_peek_rule(ledger, (size_t)(rule - server->routes.rules));
}

/* --- measuring --- */

bool ab_hybrid_contended(const ab_runner *runner) {
  const ab_server *server = runner->server;
  return ab_gang_busy(server->gang) || ab_crew_competes(server, runner);
}

static bool on_thread(const ab_exchange *exchange) {
  return exchange->runner->host->mode == AB_MODE_THREAD;
}

void ab_hybrid_begin(ab_exchange *exchange) {
  if (on_thread(exchange)) {
    exchange->computed = ab_clock_of_thread();
  } else {
    exchange->stint = ab_loop_begin_stint(exchange->runner->loop);
  }
}

/* The longest stretch, or the time for which it computed. */
static ab_nsec measured(ab_exchange *exchange) {
  if (!on_thread(exchange)) return ab_loop_end_stint(exchange->runner->loop, exchange->stint);
  ab_nsec now = ab_clock_of_thread();
  return now > exchange->computed ? now - exchange->computed : 0;
}

void ab_hybrid_end(ab_exchange *exchange) {
  ab_server *server = exchange->server;
  bool thread = on_thread(exchange);
  if (AB_UNLIKELY(!thread && !exchange->stint)) return; /* there was no memory to measure it */
  ab_nsec time = measured(exchange);
  enum ab_route_move move = ab_ledger_note(server->ledger, exchange->route, thread, time);
  /* It has to be told, which may be another's business. */
  if (AB_UNLIKELY(move != AB_ROUTE_STAYS)) ab_server_tell_leader(server);
}

/* --- telling --- */

static VALUE name_of(const ab_route_info *info) {
  return info->name.len ? rb_str_new(info->name.ptr, (long)info->name.len) : Qnil;
}

static VALUE log_move(VALUE arg) {
  const ab_server *server = ((void **)arg)[0];
  const ab_route_info *info = ((void **)arg)[1];
  static const char *const moves[] = {[AB_ROUTE_TO_THREADS] = "thread",
                                      [AB_ROUTE_TO_FIBERS] = "fiber",
                                      [AB_ROUTE_FORGOTTEN] = "forgotten"};
  return rb_funcall(server->log, rb_intern("moved"), 4, name_of(info),
                    ID2SYM(rb_intern(moves[info->move])), ab_stats_seconds(info->p95),
                    UINT2NUM(info->count));
}

void ab_hybrid_log(ab_server *server) {
  for (ab_route_info info; ab_ledger_next_move(server->ledger, &info);) {
    ab_server_quietly(log_move, (VALUE)(void *[]){server, &info});
  }
}

VALUE ab_hybrid_stats(const ab_server *server) {
  VALUE hash = rb_hash_new(), routes = rb_ary_new();
  ab_ledger_stats stats = ab_ledger_get_stats(server->ledger);
  ab_stats_put(hash, "promoted", ULL2NUM(stats.promoted));
  ab_stats_put(hash, "demoted", ULL2NUM(stats.demoted));
  size_t nth = 0;
  for (ab_route_info info; ab_ledger_next_promoted(server->ledger, &nth, &info);) {
    VALUE route = rb_hash_new();
    ab_stats_put(route, "path", name_of(&info));
    ab_stats_put(route, "p95", ab_stats_seconds(info.p95));
    ab_stats_put(route, "requests", UINT2NUM(info.count));
    rb_ary_push(routes, route);
  }
  ab_stats_put(hash, "routes", routes);
  return hash;
}
