/* A server's slot in the page: figures, state and heartbeats of the run. */
#include "rb/page/rb_page.h"
#include "rb/run/rb_turn.h"
#include "rb/server/rb_server.h"

void ab_server_set_slot(ab_server *server, VALUE slot, bool balances) {
  if (!NIL_P(slot)) ab_slot_check_type(slot);
  server->slot = slot;
  server->balances = balances;
}

void ab_server_check_slot(const ab_server *server) {
  if (!NIL_P(server->slot)) ab_slot_check(server->slot);
}

void ab_server_enter_slot(ab_server *server) {
  if (NIL_P(server->slot)) return;
  ab_engine *engine = server->run.rack.engine;
  server->part = ab_slot_occupy(server->slot, &server->page);
  ab_engine_count_in(engine, &server->part->figures);
  const ab_siblings siblings = {
      .page = server->page,
      .own = ab_slot_index(server->slot),
      .moves = server->balances,
      .computes = server->run.main.runner.executor->mode == AB_MODE_THREAD,
  };
  if (ab_engine_join(engine, &siblings) != AB_OK) {
    ab_engine_detach(engine);
    ab_server_leave_slot(server);
    rb_memerror();
  }
  ab_server_open_sight(server);
  ab_server_say(server, AB_PAGE_SERVING);
  ab_page_beat(server->page, siblings.own, ab_clock_monotonic());
}

void ab_server_leave_slot(ab_server *server) {
  if (!server->part) return;
  ab_server_close_sight(server);
  ab_engine_part(server->run.rack.engine);
  ab_engine_count_in(server->run.rack.engine, NULL);
  server->part = NULL;
  ab_slot_vacate(server->slot);
}

void ab_server_say(ab_server *server, enum ab_page_state state) {
  if (server->part) ab_page_set_state(server->page, ab_slot_index(server->slot), state);
}

/* call-seq: beat(offloads) -> nil
 *
 * To be called each second, on a thread of its own: it has to get Ruby's lock for it. Beats if the
 * engine has turned since the last call, and has it turn again. Reports what keeps a loop, which
 * cannot do so itself meanwhile. `offloads`: blocks that have threads of their own, or wait for
 * one.
 */
static VALUE server_beat(VALUE self, VALUE offloads) {
  ab_server *server = ab_server_own_or_null(self);
  if (!server || !server->part) return Qnil;
  ab_nsec turned = ab_engine_show_now(server->run.rack.engine), now = ab_clock_monotonic();
  if (turned >= server->asked) ab_page_beat(server->page, ab_slot_index(server->slot), now);
  server->asked = now;
  ab_server_look_at_process(server, NUM2UINT(offloads), now);
  if (!server->run.rack.standby) ab_server_second(&server->run, now);
  ab_rack_tell_leader(&server->run.rack);
  ab_turn_log_stalls(&server->run.stalls); /* calls Ruby: the last */
  RB_GC_GUARD(self);
  return Qnil;
}

void ab_init_server_slot(VALUE cEngine) {
  rb_define_method(cEngine, "beat", server_beat, 1);
}
