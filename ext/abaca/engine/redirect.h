/* Listeners whose requests are sent to https. Internal to engine/. */
#ifndef AB_ENGINE_REDIRECT_H
#define AB_ENGINE_REDIRECT_H

#include "engine/conn.h"

/* Of a listener; its own copies. */
struct ab_redirect {
  const ab_view *hosts; /* in lower case */
  size_t host_count;
  uint16_t port;
};

/* NULL without memory; ab_free frees it. */
ab_redirect *ab__redirect_init(const ab_mem *mem, const ab_redirect_terms *terms);

#endif
