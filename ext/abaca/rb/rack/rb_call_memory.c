/* The memory of calls is the server's, so that nothing points into the stack of a fiber or thread
 * that may end. It is used again, which a handle tells by the generation: its word for the call has
 * some bits of that where the alignment leaves them free. */
#include <stdlib.h>
#include <string.h>

#include "base/hide.h"
#include "rb/rack/rb_sight.h"

#define SPARE_CALLS 1024 /* at most, kept for the next requests */

/* Debug and sanitized builds (extconf.rb) make what still uses a call that is over fail, and
 * use its memory again as late as they can. What the list of spares needs stays as it is. */
#ifdef AB_POISON
#define POISON      0xdb
#define POISON_FROM offsetof(ab_call, rack)

static void cure(ab_call *call) {
  ab_show((char *)call + POISON_FROM, sizeof(*call) - POISON_FROM);
}

static void put_away(ab_rack *rack, ab_call *call) {
  char *from = (char *)call + POISON_FROM;
  memset(from, POISON, sizeof(*call) - POISON_FROM);
  ab_hide(from, sizeof(*call) - POISON_FROM);
  ab_list_append(&rack->spare_calls, &call->link);
}
#else
static void cure(ab_call *call) {
  (void)call;
}

/* Last in, first out: that memory is in the caches. */
static void put_away(ab_rack *rack, ab_call *call) {
  ab_list_prepend(&rack->spare_calls, &call->link);
}
#endif

static ab_call *memory_make(void) {
  ab_call *call = aligned_alloc(AB_CALL_ALIGNMENT, sizeof(*call));
  if (!call) return NULL;
  call->generation = 0;
  call->own_row = NULL;
  return call;
}

static void destroy(ab_rack *rack, ab_call *call) {
  cure(call);
  if (rack->sight) ab_sight_give_row(rack->sight, call);
  free(call);
}

ab_call *ab_call_take(ab_rack *rack) {
  ab_list *node = ab_list_shift(&rack->spare_calls);
  if (AB_UNLIKELY(!node)) return memory_make();
  rack->spare_count--;
  ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
  cure(call);
  return call;
}

void ab_call_give_back(ab_rack *rack, ab_call *call) {
  call->generation++;
  if (AB_UNLIKELY(rack->spare_count == SPARE_CALLS) || ab_sight_is_short(rack, call)) {
    destroy(rack, call);
    return;
  }
  put_away(rack, call);
  rack->spare_count++;
}

void ab_call_free_spares(ab_rack *rack) {
  for (ab_list *node; (node = ab_list_shift(&rack->spare_calls));) {
    destroy(rack, AB_CONTAINER_OF(node, ab_call, link));
  }
  rack->spare_count = 0;
}

void *ab_call_mark(const ab_call *call) {
  return (void *)((uintptr_t)call | call->generation % AB_CALL_ALIGNMENT);
}

ab_call *ab_call_at(void *mark) {
  if (!mark) return NULL;
  uintptr_t generation = (uintptr_t)mark % AB_CALL_ALIGNMENT;
  ab_call *call = (ab_call *)(void *)((char *)mark - generation);
  if (AB_LIKELY(generation == call->generation % AB_CALL_ALIGNMENT)) return call;
#ifdef AB_POISON
  rb_bug("a handle has outlived its request");
#endif
  return NULL;
}
