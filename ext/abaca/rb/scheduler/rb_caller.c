/* May a hook for reading wait? Ruby waits after -EAGAIN and calls io_read again; but
 * IO#read_nonblock and IO#sysread, which call it too, want to see -EAGAIN. The caller's frame
 * tells them apart. */
#include "rb/scheduler/rb_scheduler.h"

#include <ruby/debug.h>
#include <string.h>

void ab_callers_mark(const ab_callers *callers) {
  for (size_t i = 0; i < AB_CALLERS; i++) rb_gc_mark(callers->frames[i]);
}

static bool is_text(VALUE text, const char *wanted) {
  return RB_TYPE_P(text, T_STRING) && (size_t)RSTRING_LEN(text) == strlen(wanted) &&
         memcmp(RSTRING_PTR(text), wanted, (size_t)RSTRING_LEN(text)) == 0;
}

static bool is_any_of(VALUE name, const char *const *names) {
  while (*names && !is_text(name, *names)) names++;
  return *names != NULL;
}

/* Methods that wait as soon as the hook has returned -EAGAIN; others handle it themselves. */
static enum ab_caller caller_kind_of(VALUE frame) {
  static const char *const waiting[] = {"readpartial", "read",      "gets",      "readline",
                                        "each_line",   "readlines", "getc",      "getbyte",
                                        "readchar",    "readbyte",  "each_char", "each_byte",
                                        "eof?",        "eof",       NULL};
  static const char *const nonblock[] = {"read_nonblock", "write_nonblock", NULL};
  if (NIL_P(frame)) return AB_CALLER_OTHER;
  VALUE name = rb_profile_frame_method_name(frame), path = rb_profile_frame_path(frame);
  if (is_text(path, "<internal:io>"))
    return is_any_of(name, nonblock) ? AB_CALLER_NONBLOCK : AB_CALLER_OTHER;
  /* Ruby code has a path. */
  bool is_core = NIL_P(path) && is_text(rb_profile_frame_classpath(frame), "IO");
  return is_core && is_any_of(name, waiting) ? AB_CALLER_WAITS : AB_CALLER_OTHER;
}

static enum ab_caller remember(ab_callers *callers, VALUE frame) {
  enum ab_caller kind = caller_kind_of(frame);
  unsigned at = callers->next++ % AB_CALLERS;
  callers->frames[at] = frame;
  callers->kinds[at] = kind;
  return kind;
}

enum ab_caller ab_callers_ask(ab_callers *callers) {
  VALUE frames[2] = {Qnil, Qnil};
  if (AB_UNLIKELY(rb_profile_frames(0, 2, frames, NULL) < 2)) return AB_CALLER_OTHER;
  for (size_t i = 0; i < AB_CALLERS; i++)
    if (callers->frames[i] == frames[1]) return callers->kinds[i];
  return remember(callers, frames[1]);
}
