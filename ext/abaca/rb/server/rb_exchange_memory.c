/* The memory of exchanges, and how a handle points there. All of it is the server's, so that
 * nothing points into the stack of a fiber or thread that may end: what is over is used again for
 * another request, and a handle tells that by the generation.
 *
 * A handle has one word for its exchange. Its low bits, which the alignment leaves free, are those
 * of the generation. */
#include <string.h>

#include "rb/server/rb_server.h"

/* Bytes, a power of two. */
#define ALIGNMENT 64
/* So many are kept for the next requests. */
#define SPARE_EXCHANGES 1024

/* --- poison --- */

/* Debug and sanitized builds (extconf.rb) make whoever still uses an exchange that is over fail,
 * and use its memory again as late as they can. What the list of spares needs stays as it is. */
#ifdef AB_POISON
#define POISON      0xdb
#define POISON_FROM offsetof(ab_exchange, server)

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(ptr, len)   ((void)(ptr), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(ptr, len) ((void)(ptr), (void)(len))
#endif

static void poison(ab_exchange *exchange) {
  char *from = (char *)exchange + POISON_FROM;
  memset(from, POISON, sizeof(*exchange) - POISON_FROM);
  ASAN_POISON_MEMORY_REGION(from, sizeof(*exchange) - POISON_FROM);
}

static void cure(ab_exchange *exchange) {
  ASAN_UNPOISON_MEMORY_REGION((char *)exchange + POISON_FROM, sizeof(*exchange) - POISON_FROM);
}

static void put_away(ab_server *server, ab_exchange *exchange) {
  poison(exchange);
  ab_list_append(&server->spare_exchanges, &exchange->link);
}
#else
static void cure(ab_exchange *exchange) {
  (void)exchange;
}

/* Last in, first out: that memory is in the caches. */
static void put_away(ab_server *server, ab_exchange *exchange) {
  ab_list_prepend(&server->spare_exchanges, &exchange->link);
}
#endif

/* --- taking and giving back --- */

static ab_exchange *make(void) {
  char *memory = ab_alloc(&ab_mem_libc, sizeof(ab_exchange) + ALIGNMENT - 1);
  if (!memory) return NULL;
  size_t over = (uintptr_t)memory % ALIGNMENT;
  ab_exchange *exchange = (ab_exchange *)(void *)(memory + (over ? ALIGNMENT - over : 0));
  exchange->memory = memory;
  exchange->generation = 0;
  return exchange;
}

static void destroy(ab_exchange *exchange) {
  cure(exchange);
  ab_free(&ab_mem_libc, exchange->memory);
}

ab_exchange *ab_exchange_take(ab_server *server) {
  ab_list *node = ab_list_shift(&server->spare_exchanges);
  if (AB_UNLIKELY(!node)) return make();
  server->spare_count--;
  ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
  cure(exchange);
  return exchange;
}

void ab_exchange_give_back(ab_server *server, ab_exchange *exchange) {
  exchange->generation++;
  if (AB_UNLIKELY(server->spare_count == SPARE_EXCHANGES)) {
    destroy(exchange);
    return;
  }
  put_away(server, exchange);
  server->spare_count++;
}

void ab_exchange_free_spares(ab_server *server) {
  for (ab_list *node; (node = ab_list_shift(&server->spare_exchanges));) {
    destroy(AB_CONTAINER_OF(node, ab_exchange, link));
  }
  server->spare_count = 0;
}

/* --- what a handle has --- */

void *ab_exchange_mark(const ab_exchange *exchange) {
  return (void *)((uintptr_t)exchange | exchange->generation % ALIGNMENT);
}

ab_exchange *ab_exchange_at(void *mark) {
  if (!mark) return NULL;
  uintptr_t generation = (uintptr_t)mark % ALIGNMENT;
  ab_exchange *exchange = (ab_exchange *)(void *)((char *)mark - generation);
  if (AB_LIKELY(generation == exchange->generation % ALIGNMENT)) return exchange;
#ifdef AB_POISON
  rb_bug("a handle has outlived its request");
#endif
  return NULL;
}
