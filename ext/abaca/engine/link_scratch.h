/* Memory that all TLS links of an engine use in turn, and the engine's clocks. */
#ifndef AB_ENGINE_LINK_SCRATCH_H
#define AB_ENGINE_LINK_SCRATCH_H

#include "base/mem.h"

typedef struct ab_link_scratch {
  const ab_mem *mem;
  const ab_nsec *now;    /* monotonic */
  const int64_t *second; /* Unix time */
  uint64_t received;     /* bytes that came from the network, for all links */
  char *in, *out;        /* NULL before the first TLS link */
} ab_link_scratch;

/* Borrows all of it. Takes no memory before a link needs it. */
static inline void ab_link_scratch_init(ab_link_scratch *scratch, const ab_mem *mem,
                                        const ab_nsec *now, const int64_t *second) {
  *scratch = (ab_link_scratch){.mem = mem, .now = now, .second = second};
}

static inline void ab_link_scratch_fini(ab_link_scratch *scratch) {
  ab_free(scratch->mem, scratch->in);
  scratch->in = scratch->out = NULL;
}

#endif
