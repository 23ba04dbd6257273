/* Engine#requests: every request in flight; lib/abaca/requests.rb adds what fibers wait for. No
 * code of the app's runs while the lists are walked, so that a trap handler may call it. */
#include "rb/server/rb_server.h"

#include <string.h>

#include "rb/rack/rb_lookup.h"
#include "rb/run/rb_thread_pool.h"

static VALUE symbol(const char *name) {
  return ID2SYM(rb_intern(name));
}

static VALUE age_since(ab_nsec time) {
  ab_nsec now = ab_clock_monotonic();
  return ab_float_seconds(now > time ? now - time : 0);
}

static VALUE peer_text(const ab_addr *peer) {
  char text[AB_ADDR_TEXT_MAX];
  size_t len = ab_addr_text(peer, text);
  return len > 0 ? rb_usascii_str_new(text, (long)len) : Qnil;
}

static const char *phase_of(const ab_call *call) {
  if (call->over) return "finished";
  if (!NIL_P(call->io)) return "hijacked";
  if (!ab_list_empty(&call->waits)) {
    if (call->wait_kind == AB_WAIT_REQUEST_BODY) return "body";
    if (call->wait_kind == AB_WAIT_RESPONSE_DRAIN) return "drain";
  }
  return call->head_sent ? "stream" : "app";
}

/* The app may have put anything there. */
static VALUE requests_text_of(VALUE env, const char *key) {
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
  ab_put(hash, "method", requests_text_of(env, "REQUEST_METHOD"));
  ab_put(hash, "path",
         rb_str_concat(requests_text_of(env, "SCRIPT_NAME"), requests_text_of(env, "PATH_INFO")));
}

static void put_lines(const listing *of) {
  for (long i = 0; i < RARRAY_LEN(of->envs); i++) {
    put_line(RARRAY_AREF(of->requests, i), RARRAY_AREF(of->envs, i));
  }
}

/* What put_lines fills in has its place in the order. */
static void put_places_of_line(VALUE hash) {
  ab_put(hash, "method", Qnil);
  ab_put(hash, "path", Qnil);
}

static VALUE requests_describe(const ab_call *call) {
  const ab_runner *runner = call->runner;
  ab_loop *loop = ab_driver_of(runner)->loop;
  VALUE hash = rb_hash_new();
  ab_put(hash, "id", ULL2NUM(call->id));
  ab_put(hash, "phase", symbol(phase_of(call)));
  ab_put(hash, "mode", symbol(runner->executor->mode == AB_MODE_THREAD ? "thread" : "fiber"));
  ab_put(hash, "age", age_since(call->began));
  put_places_of_line(hash);
  ab_put(hash, "peer", call->exchange ? peer_text(ab_exchange_peer(call->exchange)) : Qnil);
  ab_put(hash, "cancelled", NIL_P(call->cancelled) ? Qfalse : Qtrue);
  ab_put(hash, "fiber", call->fiber);
  ab_put(hash, "thread", runner->thread);
  ab_put(hash, "scheduler", loop ? ab_loop_scheduler(loop) : Qnil);
  return hash;
}

static void add_job(const ab_taken *taken, void *ctx) {
  VALUE hash = rb_hash_new();
  ab_put(hash, "phase", symbol("queued"));
  ab_put(hash, "mode", symbol("thread"));
  ab_put(hash, "age", age_since(ab_exchange_arrived(taken->exchange)));
  put_places_of_line(hash);
  ab_put(hash, "peer", peer_text(ab_exchange_peer(taken->exchange)));
  add(ctx, hash, taken->env);
}

static VALUE describe_waiting(const ab_waiting *waiting) {
  VALUE hash = rb_hash_new();
  const char *space = memchr(waiting->line, ' ', waiting->len);
  size_t method = space ? (size_t)(space - waiting->line) : waiting->len;
  size_t path = space ? waiting->len - method - 1 : 0;
  ab_put(hash, "phase", symbol("queued"));
  ab_put(hash, "mode", Qnil);
  ab_put(hash, "age", age_since(waiting->arrived));
  ab_put(hash, "method", rb_str_new(waiting->line, (long)method));
  ab_put(hash, "path", rb_str_new(waiting->line + waiting->len - path, (long)path));
  ab_put(hash, "peer", peer_text(&waiting->peer));
  return hash;
}

static void add_waiting(ab_engine *engine, VALUE result) {
  VALUE memory;
  size_t room = ab_engine_waiting(engine, NULL, 0);
  ab_waiting *waiting = ALLOCV_N(ab_waiting, memory, room);
  /* Requests that come or go meanwhile may be in it or not. */
  size_t count = ab_engine_waiting(engine, waiting, room);
  for (size_t i = 0; i < count && i < room; i++) {
    rb_ary_push(result, describe_waiting(&waiting[i]));
  }
  ALLOCV_END(memory);
}

/* call-seq: requests -> [{id:, phase:, mode:, age:, method:, path:, peer:, ...}, ...]
 *
 * The requests in the app, oldest first, with :cancelled, :fiber, :thread and :scheduler, and those
 * that wait to be taken. */
static VALUE server_requests(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  listing all = {rb_ary_new(), rb_ary_new()};
  if (!server) return all.requests;
  const ab_run *run = &server->run;
  const ab_list *calls = &run->rack.calls;
  for (const ab_list *node = calls->next; node != calls; node = node->next) {
    const ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    add(&all, requests_describe(call), call->env);
  }
  if (run->threads) ab_thread_pool_each_job(run->threads, add_job, &all);
  put_lines(&all);
  if (server->running) add_waiting(run->rack.engine, all.requests);
  RB_GC_GUARD(all.envs);
  return all.requests;
}

void ab_init_requests(VALUE cEngine) {
  rb_define_method(cEngine, "requests", server_requests, 0);
}
