/* Engine#max_queue=: what an operator changes while the server runs. */
#include "rb/server/rb_server.h"

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

void ab_init_control(VALUE cEngine) {
  rb_define_method(cEngine, "max_queue=", server_set_max_queue, 1);
}
