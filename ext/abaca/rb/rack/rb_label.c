#include "rb/rack/rb_label.h"

#include <string.h>

#include "rb/rack/rb_sight.h"

/* Characters of a route's pattern. */
#define LONGEST 200

/* What a framework has left in the env. */
static VALUE route_of(const ab_call *call) {
  const ab_sight *sight = call->rack->sight;
  if (!sight || NIL_P(call->env) || RHASH_SIZE(call->env) <= call->env_size) return Qnil;
  for (size_t i = 0; i < AB_SIGHT_KEYS; i++) {
    VALUE value = rb_hash_lookup(call->env, sight->keys[i]);
    if (RB_TYPE_P(value, T_STRING) && RSTRING_LEN(value) > 0) return value;
  }
  return Qnil;
}

VALUE ab_label_of(const ab_call *call) {
  if (!call) return rb_str_new_cstr("(no request)");
  const ab_row *row = call->row;
  enum ab_row_method method = row ? (enum ab_row_method)row->method : AB_ROW_METHOD_OTHER;
  VALUE label = rb_str_new_cstr(ab_row_method_name(method)), route = route_of(call);
  if (NIL_P(route)) return rb_str_cat_cstr(label, " (no route)");
  rb_str_cat_cstr(label, " ");
  long len = RSTRING_LEN(route), method_len = RSTRING_LEN(label);
  /* Sinatra's begin with the method. */
  if (len > method_len && memcmp(RSTRING_PTR(route), RSTRING_PTR(label), (size_t)method_len) == 0)
    rb_str_set_len(label, 0);
  rb_str_cat(label, RSTRING_PTR(route), len < LONGEST ? len : LONGEST);
  RB_GC_GUARD(route);
  return label;
}
