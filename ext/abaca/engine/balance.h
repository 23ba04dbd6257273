/* Balance between the workers of a server, which listen at the same sockets. Internal to engine/.
 *
 * The kernel wakes one of those that wait (AB_POLL_EXCLUSIVE). A worker that is full, or whose
 * application keeps its loop, leaves new connections to the others, as long as one of them seems to
 * have room; the page says which do. All functions run with the lock held. */
#ifndef AB_ENGINE_BALANCE_H
#define AB_ENGINE_BALANCE_H

#include "engine/conn.h"
#include "page/page.h"

typedef struct ab_balance {
  const ab_page *page; /* the server's; held by whoever called ab_engine_join */
  uint32_t own;        /* our slot's index */
  uint32_t looks;      /* while it is shut: that found room elsewhere, in a row */
  ab_nsec looked;      /* when every listener was last looked at */
} ab_balance;

/* A turn begins. */
void ab__balance_turn(ab_engine *engine);
/* Whether new connections are left to the others has changed. */
void ab__balance_note(ab_engine *engine);
/* While it is shut: whether what waits in the kernel's queues is left to the others even now. */
bool ab__balance_leaves(ab_engine *engine);
/* A listener has connections. */
void ab__balance_stand_back(ab_service *service);

#endif
