/* Engine#requests: what every request in flight is at, found out when somebody asks.
 * lib/abaca/requests.rb joins it with what the fibers wait for. No code of the app's runs while the
 * lists are walked: they stay as they are, and a trap handler may call it. */
#include <string.h>

#include "rb/server/rb_gang.h"

static VALUE symbol(const char *name) {
  return ID2SYM(rb_intern(name));
}

static void put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, symbol(name), value);
}

static VALUE age_since(ab_nsec time) {
  ab_nsec now = ab_clock_monotonic();
  return DBL2NUM(now > time ? (double)(now - time) / (double)AB_NSEC_PER_SEC : 0.0);
}

static VALUE peer_text(const ab_addr *peer) {
  char text[AB_ADDR_TEXT_MAX];
  size_t len = ab_addr_text(peer, text);
  return len > 0 ? rb_usascii_str_new(text, (long)len) : Qnil;
}

static const char *phase_of(const ab_exchange *exchange) {
  if (exchange->over) return "finished";
  if (!NIL_P(exchange->io)) return "hijacked";
  if (!ab_list_empty(&exchange->waits)) {
    if (exchange->wait_kind == AB_WAIT_REQUEST_BODY) return "body";
    if (exchange->wait_kind == AB_WAIT_RESPONSE_DRAIN) return "drain";
  }
  return exchange->head_sent ? "stream" : "app";
}

/* The app may have put anything there. */
static VALUE text_of(VALUE env, const char *key) {
  VALUE value = NIL_P(env) ? Qnil : rb_hash_lookup(env, rb_str_new_cstr(key));
  return RB_TYPE_P(value, T_STRING) ? rb_str_dup(value) : rb_str_new(NULL, 0);
}

/* Requests, and their envs: a key that the app has put there may be compared by its code. */
typedef struct listing {
  VALUE requests, envs;
} listing;

static void add(const listing *to, VALUE hash, VALUE env) {
  rb_ary_push(to->requests, hash);
  rb_ary_push(to->envs, env);
}

static void put_line(VALUE hash, VALUE env) {
  put(hash, "method", text_of(env, "REQUEST_METHOD"));
  put(hash, "path", rb_str_concat(text_of(env, "SCRIPT_NAME"), text_of(env, "PATH_INFO")));
}

static void put_lines(const listing *of) {
  for (long i = 0; i < RARRAY_LEN(of->envs); i++) {
    put_line(RARRAY_AREF(of->requests, i), RARRAY_AREF(of->envs, i));
  }
}

/* What put_lines fills in has its place in the order. */
static void put_places_of_line(VALUE hash) {
  put(hash, "method", Qnil);
  put(hash, "path", Qnil);
}

static VALUE describe(const ab_exchange *exchange) {
  const ab_runner *runner = exchange->runner;
  VALUE hash = rb_hash_new();
  put(hash, "phase", symbol(phase_of(exchange)));
  put(hash, "mode", symbol(runner->host->mode == AB_MODE_THREAD ? "thread" : "fiber"));
  put(hash, "age", age_since(exchange->began));
  put_places_of_line(hash);
  put(hash, "peer", exchange->conn ? peer_text(ab_conn_peer(exchange->conn)) : Qnil);
  put(hash, "cancelled", NIL_P(exchange->cancelled) ? Qfalse : Qtrue);
  put(hash, "fiber", exchange->fiber);
  put(hash, "thread", runner->thread);
  put(hash, "scheduler", runner->loop ? ab_loop_scheduler(runner->loop) : Qnil);
  return hash;
}

/* A request that waits for a thread. */
static void add_job(const ab_taken *taken, void *ctx) {
  VALUE hash = rb_hash_new();
  put(hash, "phase", symbol("queued"));
  put(hash, "mode", symbol("thread"));
  put(hash, "age", age_since(ab_conn_arrived(taken->conn)));
  put_places_of_line(hash);
  put(hash, "peer", peer_text(ab_conn_peer(taken->conn)));
  add(ctx, hash, taken->env);
}

static VALUE describe_waiting(const ab_waiting *waiting) {
  VALUE hash = rb_hash_new();
  const char *space = memchr(waiting->line, ' ', waiting->len);
  size_t method = space ? (size_t)(space - waiting->line) : waiting->len;
  size_t path = space ? waiting->len - method - 1 : 0;
  put(hash, "phase", symbol("queued"));
  put(hash, "mode", Qnil);
  put(hash, "age", age_since(waiting->arrived));
  put(hash, "method", rb_str_new(waiting->line, (long)method));
  put(hash, "path", rb_str_new(waiting->line + waiting->len - path, (long)path));
  put(hash, "peer", peer_text(&waiting->peer));
  return hash;
}

static void add_waiting(ab_server *server, VALUE result) {
  VALUE memory;
  size_t room = ab_engine_waiting(server->engine, NULL, 0);
  ab_waiting *waiting = ALLOCV_N(ab_waiting, memory, room);
  /* Whoever comes or goes meanwhile may be in it or not. */
  size_t count = ab_engine_waiting(server->engine, waiting, room);
  for (size_t i = 0; i < count && i < room; i++) {
    rb_ary_push(result, describe_waiting(&waiting[i]));
  }
  ALLOCV_END(memory);
}

/* call-seq: requests -> [{phase:, mode:, age:, method:, path:, peer:, ...}, ...]
 *
 * The requests in the app, oldest first, with :cancelled, :fiber, :thread and :scheduler, and those
 * that wait to be taken. */
static VALUE server_requests(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  listing all = {rb_ary_new(), rb_ary_new()};
  if (!server) return all.requests;
  for (const ab_list *node = server->exchanges.next; node != &server->exchanges;
       node = node->next) {
    const ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    add(&all, describe(exchange), exchange->env);
  }
  if (server->gang) ab_gang_each_job(server->gang, add_job, &all);
  put_lines(&all);
  if (server->running) add_waiting(server, all.requests);
  RB_GC_GUARD(all.envs);
  return all.requests;
}

void ab_init_requests(VALUE cEngine) {
  rb_define_method(cEngine, "requests", server_requests, 0);
}
