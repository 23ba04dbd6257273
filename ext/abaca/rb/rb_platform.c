/* Abaca::Platform::BUILD: what this build has of what systems differ in. lib/abaca/platform.rb has
 * the words for it. */
#include "rb/rb_platform.h"

#include "base/base.h"
#include "os/has.h"

/* By the keys of Abaca::Platform::PARTS: what somebody may miss, not every probe. */
static const struct {
  const char *name;
  bool has;
} parts[] = {
    {"sendfile", AB_HAS(SENDFILE)},
    {"page_cache", AB_HAS(NOWAIT)},
    {"memfd", AB_HAS(MEMFD)},
    {"give_back", AB_HAS(ZEROING_DONTNEED)},
    {"pidfd", AB_HAS(PIDFD)},
    {"unsent", AB_HAS(UNSENT)},
    {"unsent_limit", AB_HAS(UNSENT_LIMIT)},
    {"peer_names", AB_HAS(PEERNAME)},
    {"held_back", AB_HAS(SOCKET_DIAGNOSTICS)},
    {"defer_accept", AB_HAS(DEFER_ACCEPT)},
    {"user_timeout", AB_HAS(USER_TIMEOUT)},
    {"abstract_sockets", AB_HAS(ABSTRACT_NAMES)},
    {"subreaper", AB_HAS(SUBREAPER)},
    {"held_signals", AB_HAS(PRELOAD)},
    {"proc", AB_HAS(PROC)},
    {"cgroups", AB_HAS(PROC)},
};

static const char *poller(void) {
  if (AB_HAS(EPOLL)) return "epoll";
  return AB_HAS(KQUEUE) ? "kqueue" : "poll";
}

void ab_init_platform(VALUE mAbaca) {
  VALUE build = rb_hash_new();
  rb_hash_aset(build, ID2SYM(rb_intern("poller")), rb_obj_freeze(rb_str_new_cstr(poller())));
  for (size_t i = 0; i < AB_ARRAY_LEN(parts); i++)
    rb_hash_aset(build, ID2SYM(rb_intern(parts[i].name)), parts[i].has ? Qtrue : Qfalse);
  VALUE cPlatform = rb_define_class_under(mAbaca, "Platform", rb_cObject);
  rb_define_const(cPlatform, "BUILD", rb_obj_freeze(build));
}
