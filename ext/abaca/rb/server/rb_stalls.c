/* What the server does about a fiber that keeps its loop: settings, and the standby that watches.
 */
#include "rb/server/rb_server.h"

static ab_nsec seconds(VALUE options, const char *name, double otherwise) {
  VALUE value = rb_hash_aref(options, ID2SYM(rb_intern(name)));
  double time = NIL_P(value) ? otherwise : NUM2DBL(value);
  if (!(time >= 0 && time < (double)UINT32_MAX)) {
    rb_raise(rb_eArgError, "%s: seconds are needed, not %" PRIsVALUE, name, rb_inspect(value));
  }
  return (ab_nsec)(time * (double)AB_NSEC_PER_SEC);
}

ab_stalls ab_stalls_of(VALUE options) {
  ab_stalls stalls = {0};
  ab_standby_options *times = &stalls.options;
  times->stall_after = seconds(options, "stall_after", 0.02);
  times->stall_again = times->stall_after / 4;
  return stalls;
}

void ab_stalls_begin(ab_server *server) {
  static const ab_standby_calls calls = {0};
  const ab_standby_options *options = &server->stalls.options;
  if (options->stall_after == 0) return;
  server->standby = ab_standby_start(&server->lead, server->poller, options, &calls, server);
  if (!server->standby) rb_sys_fail("cannot start the standby");
  ab_lead_join(&server->lead, &server->home.seat, ab_standby_bell(server->standby));
  ab_loop_set_pulse(server->home.loop, &server->home.seat.pulse);
}

void ab_stalls_end(ab_server *server) {
  ab_loop_set_pulse(server->home.loop, NULL);
  ab_standby *standby = server->standby;
  server->standby = NULL;
  if (!standby) return;
  if (ab_server_forked(server)) {
    server->home.seat.pulse.bell = NULL;
    ab_standby_forget(standby);
    return;
  }
  ab_lead_part(&server->lead, &server->home.seat);
  ab_standby_stop(standby);
}
