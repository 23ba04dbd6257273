#include "http/methods.h"

#include <string.h>

/* The IANA registry of methods except CONNECT and TRACE, which have no use in an application
 * server, and the two reserved names "*" and PRI. The frequent ones come first. */
static const struct {
  uint8_t len;
  char name[19];
} registry[] = {
    {3, "GET"},
    {4, "POST"},
    {4, "HEAD"},
    {3, "PUT"},
    {6, "DELETE"},
    {5, "PATCH"},
    {7, "OPTIONS"},
    {5, "QUERY"},
    {3, "ACL"},
    {16, "BASELINE-CONTROL"},
    {4, "BIND"},
    {7, "CHECKIN"},
    {8, "CHECKOUT"},
    {4, "COPY"},
    {5, "LABEL"},
    {4, "LINK"},
    {4, "LOCK"},
    {5, "MERGE"},
    {10, "MKACTIVITY"},
    {10, "MKCALENDAR"},
    {5, "MKCOL"},
    {13, "MKREDIRECTREF"},
    {11, "MKWORKSPACE"},
    {4, "MOVE"},
    {10, "ORDERPATCH"},
    {8, "PROPFIND"},
    {9, "PROPPATCH"},
    {6, "REBIND"},
    {6, "REPORT"},
    {6, "SEARCH"},
    {6, "UNBIND"},
    {10, "UNCHECKOUT"},
    {6, "UNLINK"},
    {6, "UNLOCK"},
    {6, "UPDATE"},
    {17, "UPDATEREDIRECTREF"},
    {15, "VERSION-CONTROL"},
};

static bool is(ab_view method, const char *name, size_t len) {
  return method.len == len && memcmp(method.ptr, name, len) == 0;
}

static bool is_registered(ab_view method) {
  for (size_t i = 0; i < AB_ARRAY_LEN(registry); i++) {
    if (is(method, registry[i].name, registry[i].len)) return true;
  }
  return false;
}

static bool is_listed(const ab_methods *methods, ab_view method) {
  for (size_t i = 0; i < methods->count; i++) {
    if (is(method, methods->names[i].ptr, methods->names[i].len)) return true;
  }
  return false;
}

bool ab_methods_have(const ab_methods *methods, ab_view method) {
  if (AB_LIKELY(!methods)) return is_registered(method);
  if (is(method, "CONNECT", 7)) return false;
  return methods->any || is_listed(methods, method);
}
