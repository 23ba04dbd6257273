/* From names and texts of the configuration to what the engine knows of proxies. */
#include "rb/rack/rb_proxies.h"

#include "http1/proxy.h"

VALUE ab_nets_of(VALUE list) {
  VALUE nets = rb_str_new(NULL, 0);
  if (NIL_P(list)) return nets;
  Check_Type(list, T_ARRAY);
  for (long i = 0; i < RARRAY_LEN(list); i++) {
    VALUE text = rb_ary_entry(list, i);
    ab_net net;
    StringValue(text);
    if (!ab_net_parse(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), &net)) {
      rb_raise(rb_eArgError, "%" PRIsVALUE " is no network", rb_inspect(text));
    }
    rb_str_cat(nets, (const char *)&net, sizeof net);
  }
  return nets;
}

unsigned ab_proxy_accept_of(VALUE name) {
  static const struct {
    const char *name;
    unsigned accept;
  } table[] = {
      {"v1", AB_PROXY_V1},
      {"v2", AB_PROXY_V2},
      {"any", AB_PROXY_V1 | AB_PROXY_V2},
      {"v1_if_sent", AB_PROXY_V1 | AB_PROXY_OPTIONAL},
  };
  if (NIL_P(name)) return 0;
  Check_Type(name, T_SYMBOL);
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    if (SYM2ID(name) == rb_intern(table[i].name)) return table[i].accept;
  }
  rb_raise(rb_eArgError, "no PROXY protocol is named %" PRIsVALUE, name);
}

/* call-seq: network?(text) -> true or false
 *
 * Whether the text is an address or a network, as trusted_proxies takes it. */
static VALUE is_network(VALUE self, VALUE text) {
  ab_net net;
  StringValue(text);
  return ab_net_parse(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), &net) ? Qtrue : Qfalse;
}

void ab_init_proxies(VALUE cEngine) {
  rb_define_singleton_method(cEngine, "network?", is_network, 1);
}
