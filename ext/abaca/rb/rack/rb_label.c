#include "rb/rack/rb_label.h"

#include <string.h>

#include "rb/rack/rb_sight.h"

/* Characters of a route's pattern. */
#define LONGEST 200

/* What a framework has left in the env. */
static VALUE label_route_of(const ab_call *call) {
  const ab_sight *sight = call->rack->sight;
  if (!sight || NIL_P(call->env) || RHASH_SIZE(call->env) <= call->env_size) return Qnil;
  for (size_t i = 0; i < AB_SIGHT_KEYS; i++) {
    VALUE value = rb_hash_lookup(call->env, sight->keys[i]);
    if (RB_TYPE_P(value, T_STRING) && RSTRING_LEN(value) > 0) return value;
  }
  return Qnil;
}

static void add(ab_label *label, const char *text, size_t size) {
  size_t room = sizeof label->text - label->size;
  if (size > room) size = room;
  memcpy(label->text + label->size, text, size);
  label->size += size;
}

static void add_word(ab_label *label, const char *word) {
  add(label, word, strlen(word));
}

static void add_route(ab_label *label, VALUE route) {
  const char *text = RSTRING_PTR(route);
  size_t size = (size_t)RSTRING_LEN(route);
  add_word(label, " ");
  /* Sinatra's begin with the method. */
  if (size > label->size && memcmp(text, label->text, label->size) == 0) label->size = 0;
  add(label, text, size < LONGEST ? size : LONGEST);
  RB_GC_GUARD(route);
}

void ab_label_write(ab_label *label, const ab_call *call) {
  label->size = 0;
  if (!call) {
    add_word(label, "(no request)");
    return;
  }
  const ab_row *row = call->row;
  enum ab_row_method method = row ? ab_row_method(row) : AB_ROW_METHOD_OTHER;
  add_word(label, ab_row_method_name(method));
  VALUE route = label_route_of(call);
  if (NIL_P(route)) {
    add_word(label, " (no route)");
  } else {
    add_route(label, route);
  }
}

VALUE ab_label_to_s(const ab_label *label) {
  return rb_str_new(label->text, (long)label->size);
}

VALUE ab_label_of(const ab_call *call) {
  ab_label label;
  ab_label_write(&label, call);
  return ab_label_to_s(&label);
}
