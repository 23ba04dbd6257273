/* What a profile calls the requests of a route. */
#ifndef AB_RB_LABEL_H
#define AB_RB_LABEL_H

#include "rb/rack/rb_call.h"

/* Its longest method, a space and a route's pattern. */
#define AB_LABEL_MOST 256

typedef struct ab_label {
  char text[AB_LABEL_MOST];
  size_t size;
} ab_label;

/* "GET /items/:id", as far as the route is known by now, or "GET (no route)"; "(no request)" for
 * NULL. Never its path, of which there may be any number. Runs no Ruby code and makes no object. */
void ab_label_write(ab_label *label, const ab_call *call);

/* A new String. */
VALUE ab_label_to_s(const ab_label *label);
/* Of the call, or of NULL. */
VALUE ab_label_of(const ab_call *call);

#endif
