/* Where Ruby enters the extension. */
#include <ruby.h>

#include "rb/outbox/rb_outbox.h"
#include "rb/page/rb_page.h"
#include "rb/pool/rb_pool.h"
#include "rb/rack/rb_call.h"
#include "rb/rack/rb_proxies.h"
#include "rb/rack/rb_tls_info.h"
#include "rb/rb_platform.h"
#include "rb/run/rb_clock.h"
#include "rb/scheduler/rb_loop.h"
#include "rb/server/rb_server.h"
#include "rb/server/rb_tls.h"

RUBY_FUNC_EXPORTED void Init_abaca(void);

static void init_engine(VALUE mAbaca) {
  VALUE cEngine = ab_init_server(mAbaca);
  ab_init_life(cEngine);
  ab_init_listen(mAbaca, cEngine);
  ab_init_server_slot(cEngine);
  ab_init_shutdown(cEngine);
  ab_init_signals(cEngine);
  ab_init_orphans(cEngine);
  ab_init_control(cEngine);
  ab_init_stats(cEngine);
  ab_init_requests(cEngine);
  ab_init_samples(mAbaca, cEngine);
  ab_init_proxies(cEngine);
  ab_init_hold(cEngine);
  ab_init_waiting(cEngine);
  ab_init_tracing(cEngine);
}

void Init_abaca(void) {
  VALUE mAbaca = rb_define_module("Abaca");
  ab_init_platform(mAbaca);
  ab_init_scheduler(mAbaca);
  ab_init_fiber_pool(mAbaca);
  ab_init_outbox(mAbaca);
  ab_init_page(mAbaca);
  ab_init_tally(mAbaca);
  ab_init_json(mAbaca);
  ab_init_row_lines(mAbaca);
  ab_init_pools(mAbaca);
  ab_init_tls(mAbaca);
  ab_init_tls_info(mAbaca);
  init_engine(mAbaca);
  ab_init_handle(mAbaca);
  ab_init_input(mAbaca);
}
