/* What a profile calls the requests of a route. */
#ifndef AB_RB_LABEL_H
#define AB_RB_LABEL_H

#include "rb/rack/rb_call.h"

/* "GET /items/:id", as far as the route is known by now, or "GET (no route)"; "(no request)" for
 * NULL. Never its path, of which there may be any number. Runs no Ruby code. */
VALUE ab_label_of(const ab_call *call);

#endif
