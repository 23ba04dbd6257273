/* The methods that are served; every other one is answered 501 (RFC 9110 9.1). */
#ifndef AB_HTTP_METHODS_H
#define AB_HTTP_METHODS_H

#include "base/base.h"

/* A longer one is refused before its end is known. The longest of the registry has 17 bytes. */
#define AB_METHOD_MAX 32

/* Instead of the registry's. The names are the caller's. */
typedef struct ab_methods {
  const ab_view *names;
  size_t count;
  bool any; /* every token; `names` does not count */
} ab_methods;

/* NULL: the registry's, but TRACE. CONNECT never: an answer would have to be a tunnel. */
bool ab_methods_have(const ab_methods *methods, ab_view method);

#endif
