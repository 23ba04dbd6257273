/* Engine#stats and #limits: figures for Ruby. docs/stats.md says what each means. */
#include "rb/server/rb_gang.h"
#include "rb/server/rb_hybrid.h"

#include <math.h>

static void put_count(VALUE hash, const char *name, uint64_t value) {
  ab_stats_put(hash, name, ULL2NUM(value));
}

static void put_engine(VALUE hash, const ab_engine_stats *stats) {
  put_count(hash, "accepted", stats->accepted);
  put_count(hash, "refused", stats->refused);
  put_count(hash, "requests", stats->requests);
  put_count(hash, "errors", stats->errors);
  put_count(hash, "timeouts", stats->timeouts);
  put_count(hash, "expired", stats->expired);
  put_count(hash, "received", stats->received);
  put_count(hash, "sent", stats->sent);
  put_count(hash, "detached", stats->detached);
  put_count(hash, "probes", stats->probes);
  put_count(hash, "connections", stats->connections);
  put_count(hash, "in_app", stats->in_app);
  put_count(hash, "waiting", stats->waiting);
  put_count(hash, "held", stats->held);
  put_count(hash, "queued", stats->queued);
  put_count(hash, "left", stats->left);
  put_count(hash, "gathering", stats->gathering);
  put_count(hash, "gathered", stats->gathered);
}

/* Who waits for a thread is not in the app, though the engine has handed it over; nor has it seen
 * those that were refused, or went away, before they got one, or a fiber. */
static void put_back(ab_engine_stats *stats, const ab_server *server,
                     const ab_gang_stats *threads) {
  stats->in_app -= threads->jobs;
  stats->waiting += threads->jobs;
  stats->queued += threads->queued;
  stats->requests -= threads->jobs + threads->gone;
  stats->left += threads->gone;
  for (size_t i = 0; i < AB_ARRAY_LEN(server->counts.modes); i++) {
    stats->requests -= server->counts.modes[i].rejected;
  }
}

static uint64_t slow_now(const ab_slow *slow) {
  const ab_slow_kind *fibers = &slow->fibers, *threads = &slow->threads;
  uint64_t aside = (uint64_t)fibers->aside_count + threads->aside_count;
  return aside + fibers->held_count + threads->held_count;
}

static VALUE rejections(const ab_engine_stats *stats) {
  VALUE hash = rb_hash_new();
  put_count(hash, "queue_full", stats->rejected[AB_REJECT_QUEUE_FULL]);
  put_count(hash, "queue_timeout", stats->rejected[AB_REJECT_QUEUE_TIMEOUT]);
  put_count(hash, "request_timeout", stats->rejected[AB_REJECT_REQUEST_TIMEOUT]);
  put_count(hash, "shutdown", stats->rejected[AB_REJECT_SHUTDOWN]);
  put_count(hash, "no_fiber", stats->rejected[AB_REJECT_NO_FIBER]);
  return hash;
}

static VALUE mode_stats(const ab_server *server, enum ab_mode mode, uint64_t queued) {
  const ab_mode_counts *counts = &server->counts.modes[mode];
  uint64_t in_flight = 0;
  for (const ab_list *node = server->exchanges.next; node != &server->exchanges;
       node = node->next) {
    in_flight += AB_CONTAINER_OF(node, ab_exchange, link)->runner->host->mode == mode;
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

static VALUE stall_stats(const ab_server *server) {
  VALUE hash = rb_hash_new();
  ab_standby_stats stats = {0};
  if (server->standby) stats = ab_standby_get_stats(server->standby);
  ab_nsec longest = server->counts.longest_stall;
  put_count(hash, "count", server->counts.stalls);
  ab_stats_put(hash, "longest",
               ab_stats_seconds(stats.longest > longest ? stats.longest : longest));
  return hash;
}

/* nil for a server without threads. */
static VALUE thread_stats(const ab_server *server) {
  if (!server->gang) return Qnil;
  ab_gang_stats stats = ab_gang_get_stats(server->gang);
  VALUE hash = rb_hash_new();
  put_count(hash, "threads", stats.threads);
  put_count(hash, "busy", stats.busy);
  put_count(hash, "waiting", stats.waiting);
  put_count(hash, "min", stats.min);
  put_count(hash, "max", stats.max);
  return hash;
}

static ab_histogram lag_of(const ab_server *server) {
  ab_histogram lag = server->lag;
  if (server->running && server->home.loop) ab_histogram_join(&lag, ab_loop_lag(server->home.loop));
  return lag;
}

static VALUE lag_stats(const ab_histogram *lag) {
  VALUE hash = rb_hash_new(), buckets = rb_hash_new();
  uint64_t count = 0;
  for (unsigned i = 0; i < AB_HISTOGRAM_BUCKETS; i++) {
    ab_nsec end = ab_histogram_end(i);
    count += lag->counts[i];
    rb_hash_aset(buckets, end ? ab_stats_seconds(end) : DBL2NUM(HUGE_VAL), ULL2NUM(lag->counts[i]));
  }
  put_count(hash, "count", count);
  ab_stats_put(hash, "longest", ab_stats_seconds(lag->longest));
  ab_stats_put(hash, "buckets", buckets);
  return hash;
}

/* call-seq: stats -> Hash
 *
 * Counters of the engine since it was made, and what it has at this moment; :rejected, :modes,
 * :stalls and :loop_lag are Hashes. Any thread may call it. */
static VALUE server_stats(VALUE self) {
  ab_server *server = ab_server_own(self);
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  ab_gang_stats threads = {0};
  if (server->gang) threads = ab_gang_get_stats(server->gang);
  /* Who waits in the engine waits for whoever leads. */
  uint64_t for_fiber = threads.leads ? 0 : stats.queued;
  uint64_t for_thread = threads.leads ? stats.queued : threads.queued;
  put_back(&stats, server, &threads);
  ab_histogram lag = lag_of(server);
  VALUE result = rb_hash_new(), modes = rb_hash_new();
  put_engine(result, &stats);
  put_count(result, "slow", slow_now(&server->slow));
  put_count(result, "slow_closed", server->slow.closed);
  ab_stats_put(result, "rejected", rejections(&stats));
  ab_stats_put(modes, "fiber", mode_stats(server, AB_MODE_FIBER, for_fiber));
  ab_stats_put(modes, "thread", mode_stats(server, AB_MODE_THREAD, for_thread));
  if (server->ledger) ab_stats_put(modes, "hybrid", ab_hybrid_stats(server));
  ab_stats_put(result, "modes", modes);
  ab_stats_put(result, "thread_pool", thread_stats(server));
  ab_stats_put(result, "stalls", stall_stats(server));
  ab_stats_put(result, "loop_lag", lag_stats(&lag));
  return result;
}

/* call-seq: limits -> Hash
 *
 * The limits in force where a listener has none of its own, by name. */
static VALUE server_limits(VALUE self) {
  const ab_limits *limits = ab_engine_limits(ab_server_own(self)->engine);
  VALUE result = rb_hash_new();
#define AB_LIMIT_VALUE(name, value, unit, text) put_count(result, #name, limits->name);
  AB_LIMITS(AB_LIMIT_VALUE)
#undef AB_LIMIT_VALUE
  return result;
}

static VALUE limits_table(void) {
  VALUE table = rb_hash_new();
#define AB_LIMIT_ROW(name, value, unit, text)                                                      \
  ab_stats_put(                                                                                    \
      table, #name,                                                                                \
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
}
