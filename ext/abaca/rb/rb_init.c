/* Where Ruby enters the extension. */
#include <ruby.h>

#include "rb/rb_loop.h"
#include "rb/rb_pool.h"
#if __has_include("rb/rb_server.h")
#include "rb/rb_server.h"
#define HAVE_AB_SERVER 1
#endif

RUBY_FUNC_EXPORTED void Init_abaca(void);

void Init_abaca(void) {
  VALUE mAbaca = rb_define_module("Abaca");
  ab_init_scheduler(mAbaca);
  ab_init_fiber_pool(mAbaca);
#ifdef HAVE_AB_SERVER
  ab_init_server(mAbaca);
#endif
}
