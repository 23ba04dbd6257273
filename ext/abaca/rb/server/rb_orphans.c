/* Engine.adopt_orphans: for a process that looks after descendants which are not its children. */
#include "rb/server/rb_server.h"

#include "os/process.h"

/* call-seq: Engine.adopt_orphans -> nil
 *
 * From now on, descendants of this process whose parents end become its children. Raises
 * SystemCallError. */
static VALUE adopt_orphans(VALUE klass AB_UNUSED) {
  if (ab_os_adopt_orphans() != 0) rb_sys_fail("cannot adopt orphans");
  return Qnil;
}

void ab_init_orphans(VALUE cEngine) {
  rb_define_singleton_method(cEngine, "adopt_orphans", adopt_orphans, 0);
}
