#include "http/methods.h"

#include "http/char.h"

/* The IANA registry without CONNECT, TRACE and the reserved names "*" and PRI. */
static const char *const registry[] = {
    /* frequent */
    "GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY",
    /* the others */
    "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK",
    "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
    "ORDERPATCH", "PROPFIND", "PROPPATCH", "REBIND", "REPORT", "SEARCH", "UNBIND", "UNCHECKOUT",
    "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL"};

static bool is_registered(ab_view method) {
  for (size_t i = 0; i < AB_ARRAY_LEN(registry); i++) {
    if (ab_view_is(method, registry[i], strlen(registry[i]))) return true;
  }
  return false;
}

static bool is_listed(const ab_methods *methods, ab_view method) {
  for (size_t i = 0; i < methods->count; i++) {
    if (ab_view_is(method, methods->names[i].ptr, methods->names[i].len)) return true;
  }
  return false;
}

bool ab_methods_have(const ab_methods *methods, ab_view method) {
  if (AB_LIKELY(!methods)) return ab_view_is(method, "GET", 3) || is_registered(method);
  if (ab_view_is(method, "CONNECT", 7)) return false;
  return methods->any || is_listed(methods, method);
}
