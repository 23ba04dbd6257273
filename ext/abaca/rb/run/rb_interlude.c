#include "rb/run/rb_interlude.h"

#include "rb/rack/rb_lookup.h"

void ab_interlude_configure(ab_run *run, VALUE options) {
  run->interlude.begin = ab_option(options, "interlude");
  run->rack.tells_end = !NIL_P(run->interlude.begin);
}

/* The end of a server brings none. */
static bool is_possible(const ab_run *run) {
  const ab_interlude *interlude = &run->interlude;
  if (AB_LIKELY(NIL_P(interlude->begin)) || atomic_load(&interlude->on)) return false;
  return !run->ending.retired && ab_list_seems_empty(&run->rack.calls);
}

bool ab_interlude_due(const ab_run *run) {
  if (AB_LIKELY(!is_possible(run))) return false;
  ab_figures stats = ab_engine_get_stats(run->rack.engine);
  return stats.in_app == 0 && stats.waiting == 0 && stats.requests != run->interlude.seen;
}

static VALUE begin(VALUE proc) {
  return rb_funcall(proc, rb_intern("call"), 0);
}

void ab_interlude_look(ab_run *run, ab_pulse *pulse) {
  if (AB_LIKELY(!ab_interlude_due(run))) return;
  ab_interlude *interlude = &run->interlude;
  interlude->seen = ab_engine_get_stats(run->rack.engine).requests;
  atomic_store(&interlude->on, true);
  ab_engine_withhold(run->rack.engine, true);
  ab_pulse_leave(pulse);
  int state = 0;
  rb_protect(begin, interlude->begin, &state);
  if (!state) return;
  rb_set_errinfo(Qnil); /* there is no thread to be had: the next request brings another one */
  ab_interlude_end(run);
}

void ab_interlude_end(ab_run *run) {
  if (!atomic_exchange(&run->interlude.on, false)) return;
  ab_engine_withhold(run->rack.engine, false);
  ab_rack_tell_leader(&run->rack);
}
