/* The series of several slots, added: those of one kind, method, status and route, by its name,
 * since each slot has numbers of its own. */
#ifndef AB_PAGE_SUMS_H
#define AB_PAGE_SUMS_H

#include "page/page.h"

/* Routes in the keys of sums: their names' indexes, or AB_SERIES_NO_ROUTE, or this one. */
#define AB_SUMS_OTHER (UINT32_MAX - 1)

typedef struct ab_sums_name {
  char text[AB_PAGE_ROUTE_NAME];
  uint32_t len;
} ab_sums_name;

typedef struct ab_sums {
  ab_mem mem;
  ab_series *series;
  uint32_t count, room;
  ab_sums_name *names;
  uint32_t name_count, name_room;
  uint32_t *places; /* by hash: index + 1; twice as many as there is room for series */
} ab_sums;

void ab_sums_init(ab_sums *self, const ab_mem *mem);
void ab_sums_fini(ab_sums *self);
/* Adds what stands in a slot, its writers or not. AB_OK, or AB_ENOMEM: then a part is added. */
int ab_sums_add(ab_sums *self, const ab_page_parts *parts) AB_WARN_UNUSED;

#endif
