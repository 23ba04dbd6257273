/* Engine#max_queue=, #cancel: what an operator changes while the server runs. */
#include "rb/server/rb_server.h"

#include "rb/rack/rb_cancel.h"
#include "rb/run/rb_thread_pool.h"

/* call-seq: max_queue = count
 *
 * So many requests may wait from now on; those that wait beyond it are refused at the next step.
 * Any thread may call it. */
static VALUE server_set_max_queue(VALUE self, VALUE count) {
  ab_server *server = ab_server_own(self);
  ab_rack *rack = &server->run.rack;
  uint32_t most = NUM2UINT(count);
  ab_engine_lock(rack->engine);
  ab_engine_set_max_queue(rack->engine, most);
  ab_engine_unlock(rack->engine);
  if (server->run.threads) ab_thread_pool_set_most(server->run.threads, most);
  return count;
}

static ab_call *find(const ab_rack *rack, uint64_t id) {
  for (ab_list *node = rack->calls.next; node != &rack->calls; node = node->next) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (call->id == id) return call->over ? NULL : call;
  }
  return NULL;
}

/* call-seq: cancel(id) -> true or false
 *
 * Raises Abaca::EndedByOperator in the request in the app that has this id, where it waits. Returns
 * false if there is none, or it was cancelled before. Any thread may call it. */
static VALUE server_cancel(VALUE self, VALUE id) {
  ab_server *server = ab_server_own(self);
  ab_rack *rack = &server->run.rack;
  ab_call *call = find(rack, NUM2ULL(id));
  if (!server->running || !call || !NIL_P(call->cancelled)) return Qfalse;
  ab_cancel_note(call, AB_NEWS_OPERATOR);
  ab_rack_tell_leader(rack);
  return Qtrue;
}

void ab_init_control(VALUE cEngine) {
  rb_define_method(cEngine, "cancel", server_cancel, 1);
  rb_define_method(cEngine, "max_queue=", server_set_max_queue, 1);
}
