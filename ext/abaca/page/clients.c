#include "page/clients.h"

#define CLIENTS_PLACES (4 * AB_PAGE_CLIENTS)

void ab_page_clients_over(ab_page_clients *self, ab_page_client *clients, uint32_t count) {
  if (count > AB_PAGE_CLIENTS) count = AB_PAGE_CLIENTS;
  *self = (ab_page_clients){.clients = clients, .count = count};
}

static bool clients_same(const ab_addr *a, const ab_addr *b) {
  return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

size_t ab_page_client_hash(const ab_addr *addr) {
  uint64_t halves[2];
  memcpy(halves, addr->bytes, sizeof(halves));
  uint64_t mixed = (halves[0] ^ addr->family) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 32 ^ halves[1]) * 0xd6e8feb86659fd93u;
  return (size_t)(mixed >> 32);
}

ab_addr ab_page_client_bare(const ab_addr *addr) {
  ab_addr only = {.family = addr->family};
  memcpy(only.bytes, addr->bytes, addr->family == 4 ? 4 : addr->family == 6 ? 16 : 0);
  return only;
}

/* Where an address is, or would be. */
static uint8_t *clients_place_of(ab_page_clients *self, const ab_addr *addr) {
  size_t at = ab_page_client_hash(addr) % CLIENTS_PLACES;
  while (self->places[at] && !clients_same(&self->clients[self->places[at] - 1].addr, addr))
    at = (at + 1) % CLIENTS_PLACES;
  return &self->places[at];
}

/* An address was replaced: what was put beyond its place must be found without it. */
static void index_anew(ab_page_clients *self) {
  memset(self->places, 0, sizeof(self->places));
  for (uint32_t i = 0; i < self->used; i++)
    *clients_place_of(self, &self->clients[i].addr) = (uint8_t)(i + 1);
}

static uint32_t fewest(const ab_page_clients *self) {
  uint32_t least = 0;
  for (uint32_t i = 1; i < self->used; i++) {
    if (self->clients[i].requests < self->clients[least].requests) least = i;
  }
  return least;
}

/* Writes what stands in `whole`, but for its number. */
static void clients_put(ab_page_client *client, const ab_page_client *whole) {
  ab_page_client words = *whole;
  ab_seq_open(&client->seq);
  /* The address begins within the first word. */
  words.seq = AB_GET(client->seq);
  ab_words_put(client, &words, sizeof(words));
  ab_seq_close(&client->seq);
}

static ab_page_client *clients_enter(ab_page_clients *self, const ab_addr *addr) {
  bool full = self->used == self->count;
  uint32_t number = full ? fewest(self) : self->used;
  uint64_t over = full ? self->clients[number].requests : 0;
  clients_put(&self->clients[number],
              &(ab_page_client){.addr = *addr, .requests = over, .over = over});
  if (!full) {
    self->used++;
    *clients_place_of(self, addr) = (uint8_t)(number + 1);
  } else {
    index_anew(self);
  }
  return &self->clients[number];
}

static AB_NOINLINE ab_page_client *look_up(ab_page_clients *self, const ab_addr *addr) {
  ab_addr only = ab_page_client_bare(addr);
  uint8_t place = *clients_place_of(self, &only);
  ab_page_client *client = place ? &self->clients[place - 1] : clients_enter(self, &only);
  return self->last_client = client;
}

void ab_page_clients_count(ab_page_clients *self, const ab_addr *addr,
                           const ab_page_client_request *request) {
  if (self->count == 0) return;
  ab_page_client *client = self->last_client;
  if (AB_UNLIKELY(!client || !ab__page_client_is(client, addr))) client = look_up(self, addr);
  ab__page_client_add(client, request->bytes);
  if (AB_UNLIKELY(request->slow)) AB_ADD(client->slow, 1);
  if (AB_UNLIKELY(request->error)) AB_ADD(client->errors, 1);
}

void ab__page_clients_count_other(ab_page_clients *self, const ab_addr *addr, uint64_t bytes) {
  ab_page_clients_count(self, addr, &(ab_page_client_request){.bytes = bytes});
}

/* So many connections are worth a place that somebody with requests has. */
#define MANY 8

void ab_page_clients_meet(ab_page_clients *self, const ab_addr *addr, uint32_t open) {
  if (self->count == 0) return;
  ab_addr only = ab_page_client_bare(addr);
  uint8_t place = *clients_place_of(self, &only);
  ab_page_client *client = place ? &self->clients[place - 1] : NULL;
  if (!client) {
    bool full = self->used == self->count;
    if (full && (open < MANY || open <= AB_GET(self->clients[fewest(self)].open))) return;
    client = clients_enter(self, &only);
  }
  AB_PUT(client->open, open);
}

void ab__page_client_forget(ab_page_client *client) {
  clients_put(client, &(ab_page_client){.requests = 0});
}

bool ab_page_client_load(const ab_page_client *client, ab_page_client *copy) {
  for (int i = 0; i < AB_SEQ_TRIES; i++) {
    uint32_t seq = ab_seq_begin(&client->seq);
    if (!AB_GET(client->requests) && !AB_GET(client->open)) return false;
    ab_words_get(copy, client, sizeof(*copy));
    if (ab_seq_holds(&client->seq, seq)) return copy->requests > 0 || copy->open > 0;
  }
  return false;
}
