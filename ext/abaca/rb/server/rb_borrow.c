/* What the engine sends from memory of Ruby's: it is kept alive until the engine lets it go. */
#include "rb/server/rb_server.h"

ab_borrow *ab_server_borrow(ab_server *server, VALUE object, int fd) {
  ab_borrow *borrow = server->spare;
  if (borrow) {
    server->spare = borrow->next;
  } else {
    borrow = ab_alloc(&ab_mem_libc, sizeof(*borrow));
    if (!borrow) return NULL;
  }
  *borrow = (ab_borrow){.object = object, .fd = fd};
  ab_list_append(&server->borrowed, &borrow->link);
  return borrow;
}

void ab_server_return(ab_server *server, ab_borrow *borrow) {
  ab_list_remove(&borrow->link);
  if (borrow->fd >= 0) ab_fd_close(borrow->fd);
  borrow->next = server->spare;
  server->spare = borrow;
}

void ab_server_release(void *ctx, void *owner) {
  ab_server *server = ctx;
  ab_borrow *borrow = owner;
  borrow->next = server->released;
  server->released = borrow;
}

void ab_server_take_released(ab_server *server) {
  if (!__atomic_load_n(&server->released, __ATOMIC_RELAXED)) return;
  ab_engine_lock(server->engine);
  ab_borrow *borrow = server->released;
  server->released = NULL;
  ab_engine_unlock(server->engine);
  while (borrow) {
    ab_borrow *next = borrow->next;
    ab_server_return(server, borrow);
    borrow = next;
  }
}
