/* The fields of a request's trailer section, one by one (RFC 9112 7.1.2). The bytes are those that
 * the chunk decoder has found to be valid. */
#ifndef AB_HTTP_TRAILER_H
#define AB_HTTP_TRAILER_H

#include "base/base.h"

/* Takes the first field line off `section` and sets name and value, without the white space around
 * the value (RFC 9110 5.5); both point into the section. False when no complete line is left. */
bool ab_trailer_next(ab_view *section, ab_view *name, ab_view *value);

/* False for fields of framing, routing, control, authentication and the content's form, of requests
 * and responses: they have to come before the content (RFC 9110 6.5.1). */
bool ab_trailer_allowed(ab_view name);

#endif
