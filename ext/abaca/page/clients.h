/* Which clients ask most: a sketch (space-saving) of a fixed size. When it is full, a new address
 * takes the place of the one with the fewest requests, and begins with that one's number, which is
 * by how much it may be too high. Whoever has more than 1/64 of all requests is in it. So is
 * who has many connections. */
#ifndef AB_PAGE_CLIENTS_H
#define AB_PAGE_CLIENTS_H

#include "base/addr.h"
#include "page/words.h"

#define AB_PAGE_CLIENTS 64

/* A cache line. The port does not count: it is 0. */
typedef struct ab_page_client {
  uint32_t seq;
  ab_addr addr;
  uint64_t requests; /* and none open: the place is free */
  uint64_t bytes;    /* received and sent, as all below since it has the place */
  uint64_t over;     /* by how much `requests` may be too high */
  uint32_t open;     /* connections now: opens.h writes it */
  uint32_t slow;
  uint32_t errors; /* answers with 4xx and 5xx */
  uint32_t reserved;
} ab_page_client;

_Static_assert(sizeof(ab_page_client) == 64, "a client has a cache line");

/* A process's table of the addresses in its slot. One thread at a time. */
typedef struct ab_page_clients {
  ab_page_client *clients; /* lent */
  uint32_t count;          /* AB_PAGE_CLIENTS at most */
  uint32_t used;
  ab_page_client *last_client;         /* that has asked last; NULL: nobody has */
  uint8_t places[4 * AB_PAGE_CLIENTS]; /* by hash: number + 1 */
} ab_page_clients;

/* Over the clients of a slot that this process has claimed: nobody is known. */
void ab_page_clients_over(ab_page_clients *self, ab_page_client *clients, uint32_t count);

/* A request of that address has ended. */
typedef struct ab_page_client_request {
  uint64_t bytes;
  bool slow, error;
} ab_page_client_request;

void ab_page_clients_count(ab_page_clients *self, const ab_addr *addr,
                           const ab_page_client_request *request);

static inline bool ab__page_client_is(const ab_page_client *client, const ab_addr *addr) {
  if (client->addr.family != addr->family) return false;
  if (AB_LIKELY(addr->family == 4)) return memcmp(client->addr.bytes, addr->bytes, 4) == 0;
  return addr->family == 0 || memcmp(client->addr.bytes, addr->bytes, 16) == 0;
}

/* Each of its numbers is a counter for itself: a reader may see one before the other. The address
 * and what it has counted belong together, though: who replaces that opens `seq`. */
static inline void ab__page_client_add(ab_page_client *client, uint64_t bytes) {
  AB_ADD(client->requests, 1);
  AB_ADD(client->bytes, bytes);
}

/* The same for one that was neither slow nor answered with an error. */
void ab__page_clients_count_other(ab_page_clients *self, const ab_addr *addr, uint64_t bytes);
static inline void ab_page_clients_count_plain(ab_page_clients *self, const ab_addr *addr,
                                               uint64_t bytes) {
  ab_page_client *client = self->last_client;
  if (AB_LIKELY(client != NULL) && AB_LIKELY(ab__page_client_is(client, addr))) {
    ab__page_client_add(client, bytes);
  } else {
    ab__page_clients_count_other(self, addr, bytes);
  }
}

/* An address has so many connections now, and perhaps asks for nothing: it gets a place if there is
 * one, or if the one who asks least has fewer. The engine is locked, as while they are shown. */
void ab_page_clients_meet(ab_page_clients *self, const ab_addr *addr, uint32_t open);

/* The port, and bytes that a family does not use, tell nobody apart: those that it has without
 * them, and where that one may be looked for. */
ab_addr ab_page_client_bare(const ab_addr *addr);
size_t ab_page_client_hash(const ab_addr *addr);

/* The process that had it is no more. */
void ab__page_client_forget(ab_page_client *client);
/* Copies a line; false if it is free, or written all the time. */
bool ab_page_client_load(const ab_page_client *client, ab_page_client *copy) AB_WARN_UNUSED;

#endif
