/* Engine#pool_load, #pool_wait: what lib/abaca/pool_gate.rb knows of pools, for engine/hold.h. */
#include "rb/server/rb_server.h"

#include <string.h>

#include "engine/hold.h"

static uint64_t id_of(VALUE pool) {
  return NUM2ULL(pool);
}

/* [locked] Nothing is held back before a request has waited. The seed is Ruby's own secret. */
static bool can_hold(ab_engine *engine) {
  return ab_engine_hold(engine, (uint64_t)rb_hash_start(0)) == AB_OK;
}

/* True on a fiber of the loop that leads: that takes a turn by itself before it waits. */
static bool on_main_loop(const ab_run *run) {
  return run->main.loop && rb_thread_current() == run->main.runner.thread &&
         ab_lead_is(&run->rack.lead, &run->main.runner.participant);
}

/* call-seq: pool_load(pool, size, waiters) -> nil
 *
 * Tells how many wait for the pool of that number (> 0), and its places. Any thread may call it. */
static VALUE server_pool_load(VALUE self, VALUE pool, VALUE size, VALUE waiters) {
  ab_server *server = ab_server_own_or_null(self);
  uint64_t id = id_of(pool);
  uint32_t places = NUM2UINT(size), waiting = NUM2UINT(waiters);
  if (!server || !server->running) return Qnil;
  ab_rack *rack = &server->run.rack;
  ab_engine_lock(rack->engine);
  bool go_on = can_hold(rack->engine) && ab_engine_pool_load(rack->engine, id, places, waiting);
  ab_engine_unlock(rack->engine);
  if (go_on && !on_main_loop(&server->run)) ab_rack_tell_leader(rack);
  return Qnil;
}

/* The request whose own fiber calls; NULL: none. The last ones to begin are the first to wait. */
static ab_call *current_call(const ab_rack *rack) {
  VALUE fiber = rb_fiber_current();
  for (ab_list *node = rack->calls.prev; node != &rack->calls; node = node->prev) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (call->fiber == fiber && !call->over) return call;
  }
  return NULL;
}

/* The path of the target, as it was received; empty where the app has put something else there. */
static ab_view path_of(const ab_rack *rack, VALUE env) {
  VALUE target = NIL_P(env) ? Qnil : rb_hash_lookup(env, rack->env.strings[AB_ENV_REQUEST_URI]);
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
  ab_rack *rack = &server->run.rack;
  ab_call *call = current_call(rack);
  if (!call) return Qnil;
  VALUE env = call->env, first = call->pooled ? Qfalse : Qtrue;
  call->pooled = true;
  ab_view path = path_of(rack, env); /* calls no Ruby code, but the call is not used any more */
  if (path.len == 0) return first;
  ab_engine_lock(rack->engine);
  if (can_hold(rack->engine)) ab_engine_pool_wait(rack->engine, id, path);
  ab_engine_unlock(rack->engine);
  RB_GC_GUARD(env);
  return first;
}

void ab_init_hold(VALUE cEngine) {
  rb_define_method(cEngine, "pool_load", server_pool_load, 3);
  rb_define_method(cEngine, "pool_wait", server_pool_wait, 1);
}
