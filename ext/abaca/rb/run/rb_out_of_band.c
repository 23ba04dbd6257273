#include "rb/run/rb_out_of_band.h"

#include "rb/rack/rb_lookup.h"

void ab_out_of_band_configure(ab_run *run, VALUE options) {
  run->out_of_band.begin = ab_option(options, "out_of_band");
  run->rack.tells_end = !NIL_P(run->out_of_band.begin);
}

/* The end of a server brings none. */
static bool is_possible(const ab_run *run) {
  const ab_out_of_band *out_of_band = &run->out_of_band;
  if (AB_LIKELY(NIL_P(out_of_band->begin)) || atomic_load(&out_of_band->on)) return false;
  return !run->ending.retired && ab_list_seems_empty(&run->rack.calls);
}

bool ab_out_of_band_due(const ab_run *run) {
  if (AB_LIKELY(!is_possible(run))) return false;
  ab_figures stats = ab_engine_get_stats(run->rack.engine);
  return stats.in_app == 0 && stats.waiting == 0 && stats.requests != run->out_of_band.seen;
}

static VALUE out_of_band_begin(VALUE proc) {
  return rb_funcall(proc, rb_intern("call"), 0);
}

void ab_out_of_band_look(ab_run *run, ab_pulse *pulse) {
  if (AB_LIKELY(!ab_out_of_band_due(run))) return;
  ab_out_of_band *out_of_band = &run->out_of_band;
  out_of_band->seen = ab_engine_get_stats(run->rack.engine).requests;
  atomic_store(&out_of_band->on, true);
  ab_engine_withhold(run->rack.engine, true);
  ab_pulse_leave(pulse);
  int state = 0;
  rb_protect(out_of_band_begin, out_of_band->begin, &state);
  if (!state) return;
  rb_set_errinfo(Qnil); /* there is no thread to be had: the next request brings another one */
  ab_out_of_band_end(run);
}

void ab_out_of_band_end(ab_run *run) {
  if (!atomic_exchange(&run->out_of_band.on, false)) return;
  ab_engine_withhold(run->rack.engine, false);
  ab_rack_tell_leader(&run->rack);
}
