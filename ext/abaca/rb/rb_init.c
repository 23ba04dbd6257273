/* Where Ruby enters the extension. */
#include <ruby.h>

#include "rb/outbox/rb_outbox.h"
#include "rb/scheduler/rb_loop.h"
#include "rb/pool/rb_pool.h"
#include "rb/server/rb_server.h"

RUBY_FUNC_EXPORTED void Init_abaca(void);

void Init_abaca(void) {
  VALUE mAbaca = rb_define_module("Abaca");
  ab_init_scheduler(mAbaca);
  ab_init_fiber_pool(mAbaca);
  ab_init_outbox(mAbaca);
  ab_init_server(mAbaca);
}
