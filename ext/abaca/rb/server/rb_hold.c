/* Engine#pool_load and #pool_wait: what lib/abaca/pool_gate.rb knows of the app's pools, for the
 * engine, which holds requests back that could only wait there (engine/hold.h). */
#include "rb/server/rb_server.h"

#include <string.h>

#include "engine/hold.h"

static uint64_t id_of(VALUE pool) {
  return NUM2ULL(pool);
}

/* [locked] Nothing is held back before anybody has waited. */
static bool can_hold(const ab_server *server) {
  return ab_engine_hold(server->engine, (uint64_t)rb_hash_start(0)) ==
         AB_OK; /* Ruby's own secret */
}

/* call-seq: pool_load(pool, size, waiters) -> nil
 *
 * So many fibers or threads wait now for the pool of that number, above 0, which has so many
 * places. Any thread may call it. */
static VALUE server_pool_load(VALUE self, VALUE pool, VALUE size, VALUE waiters) {
  ab_server *server = ab_server_own_or_null(self);
  uint64_t id = id_of(pool);
  uint32_t places = NUM2UINT(size), waiting = NUM2UINT(waiters);
  if (!server || !server->running) return Qnil;
  ab_engine_lock(server->engine);
  bool go_on = can_hold(server) && ab_engine_pool_load(server->engine, id, places, waiting);
  ab_engine_unlock(server->engine);
  /* The loop that this is a fiber of takes a turn by itself before it waits. */
  bool at_home = server->home.loop && rb_thread_current() == server->home.thread &&
                 ab_lead_is(&server->lead, &server->home.seat);
  if (go_on && !at_home) ab_server_tell_leader(server);
  return Qnil;
}

/* The request whose own fiber the calling one is; NULL: it is no request's. The last ones to begin
 * are the first to wait. */
static ab_exchange *current_exchange(const ab_server *server) {
  VALUE fiber = rb_fiber_current();
  for (ab_list *node = server->exchanges.prev; node != &server->exchanges; node = node->prev) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    if (exchange->fiber == fiber && !exchange->over) return exchange;
  }
  return NULL;
}

/* The path of the target, as it was received; empty where the app has put something else there. */
static ab_view path_of(const ab_server *server, VALUE env) {
  VALUE target = NIL_P(env) ? Qnil : rb_hash_lookup(env, server->env.keys[AB_ENV_REQUEST_URI]);
  if (!RB_TYPE_P(target, T_STRING)) return (ab_view){"", 0};
  ab_view path = {RSTRING_PTR(target), (size_t)RSTRING_LEN(target)};
  const char *query = memchr(path.ptr, '?', path.len);
  if (query) path.len = (size_t)(query - path.ptr);
  return path;
}

/* call-seq: pool_wait(pool) -> true, false or nil
 *
 * The calling fiber is about to wait for the pool of that number. Returns whether it is that of a
 * request which has not waited for one before; nil when it is no request's. */
static VALUE server_pool_wait(VALUE self, VALUE pool) {
  ab_server *server = ab_server_own_or_null(self);
  uint64_t id = id_of(pool);
  if (!server || !server->running) return Qnil;
  ab_exchange *exchange = current_exchange(server);
  if (!exchange) return Qnil;
  VALUE env = exchange->env, first = exchange->pooled ? Qfalse : Qtrue;
  exchange->pooled = true;
  ab_view path =
      path_of(server, env); /* calls no Ruby code, but the exchange is not used any more */
  if (path.len == 0) return first;
  ab_engine_lock(server->engine);
  if (can_hold(server)) ab_engine_pool_wait(server->engine, id, path);
  ab_engine_unlock(server->engine);
  RB_GC_GUARD(env);
  return first;
}

void ab_init_hold(VALUE cEngine) {
  rb_define_method(cEngine, "pool_load", server_pool_load, 3);
  rb_define_method(cEngine, "pool_wait", server_pool_wait, 1);
}
