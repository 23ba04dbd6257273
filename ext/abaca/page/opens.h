/* How many connections each address has now, exactly: what the sketch of clients shows of those in
 * it. One thread at a time. */
#ifndef AB_PAGE_OPENS_H
#define AB_PAGE_OPENS_H

#include "page/clients.h"

/* Addresses with connections that are counted; those of others are not. */
#define AB_PAGE_OPENS 1024

typedef struct ab_opens {
  uint32_t used;
  struct {
    ab_addr addr;
    uint32_t count; /* 0: the place is free */
  } places[2 * AB_PAGE_OPENS];
} ab_opens;

/* A connection begins or ends. */
void ab_opens_add(ab_opens *self, const ab_addr *addr);
void ab_opens_remove(ab_opens *self, const ab_addr *addr);
uint32_t ab_opens_count(const ab_opens *self, const ab_addr *addr);
/* Writes them to the lines of clients, whoever else writes there. */
void ab_opens_show(const ab_opens *self, ab_page_client *clients, uint32_t count);

/* Has those with connections get places among the clients: on the thread that counts requests. */
void ab_opens_introduce(const ab_opens *self, ab_page_clients *clients);

#endif
