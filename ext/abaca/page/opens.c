#include "page/opens.h"

#define OPENS_PLACES (2 * AB_PAGE_OPENS)

static size_t home_of(const ab_addr *addr) {
  return ab_page_client_hash(addr) % OPENS_PLACES;
}

static bool opens_is_at(const ab_opens *self, size_t at, const ab_addr *addr) {
  const ab_addr *there = &self->places[at].addr;
  return there->family == addr->family &&
         memcmp(there->bytes, addr->bytes, sizeof(there->bytes)) == 0;
}

/* Where it is, or would be. A place is always free. */
static size_t opens_place_of(const ab_opens *self, const ab_addr *addr) {
  size_t at = home_of(addr);
  while (self->places[at].count && !opens_is_at(self, at, addr)) at = (at + 1) % OPENS_PLACES;
  return at;
}

void ab_opens_add(ab_opens *self, const ab_addr *addr) {
  ab_addr only = ab_page_client_bare(addr);
  size_t at = opens_place_of(self, &only);
  if (!self->places[at].count) {
    if (self->used == AB_PAGE_OPENS) return;
    self->used++;
    self->places[at].addr = only;
  }
  self->places[at].count++;
}

/* What is behind a place that has become free moves up, if a search for it would stop there. */
static void close_gap(ab_opens *self, size_t gap) {
  for (size_t at = (gap + 1) % OPENS_PLACES; self->places[at].count; at = (at + 1) % OPENS_PLACES) {
    size_t home = home_of(&self->places[at].addr);
    if ((at - home) % OPENS_PLACES < (at - gap) % OPENS_PLACES) continue;
    self->places[gap] = self->places[at];
    self->places[at].count = 0;
    gap = at;
  }
}

void ab_opens_remove(ab_opens *self, const ab_addr *addr) {
  ab_addr only = ab_page_client_bare(addr);
  size_t at = opens_place_of(self, &only);
  if (!self->places[at].count || --self->places[at].count) return;
  self->used--;
  close_gap(self, at);
}

uint32_t ab_opens_count(const ab_opens *self, const ab_addr *addr) {
  ab_addr only = ab_page_client_bare(addr);
  return self->places[opens_place_of(self, &only)].count;
}

void ab_opens_show(const ab_opens *self, ab_page_client *clients, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    ab_page_client client;
    if (!ab_page_client_load(&clients[i], &client)) continue;
    AB_PUT(clients[i].open, ab_opens_count(self, &client.addr));
  }
}

void ab_opens_introduce(const ab_opens *self, ab_page_clients *clients) {
  for (size_t at = 0; at < OPENS_PLACES; at++) {
    uint32_t count = self->places[at].count;
    if (count) ab_page_clients_meet(clients, &self->places[at].addr, count);
  }
}
