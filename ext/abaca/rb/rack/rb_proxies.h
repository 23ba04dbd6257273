/* What Ruby says about proxies, as the structures of the rooms below. */
#ifndef AB_RB_PROXIES_H
#define AB_RB_PROXIES_H

#include <ruby.h>

#include "base/addr.h"

/* The networks of an Array of Strings or nil, as a String of ab_nets for the caller to keep alive.
 * Raises ArgumentError for what is no network, TypeError. */
VALUE ab_nets_of(VALUE list);
static inline const ab_net *ab_nets_ptr(VALUE nets) {
  return (const ab_net *)(const void *)RSTRING_PTR(nets);
}
static inline size_t ab_nets_count(VALUE nets) {
  return (size_t)RSTRING_LEN(nets) / sizeof(ab_net);
}

/* The set of enum ab_proxy_accept with this name; 0 for nil. Raises ArgumentError. */
unsigned ab_proxy_accept_of(VALUE name);

void ab_init_proxies(VALUE cEngine);

#endif
