/* Slots: how they are taken, written and read. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "page/internal.h"

/* A claim takes less than a microsecond, unless the process dies, or sleeps, within it. */
#define TRIES 100

static uint32_t claims_of(uint64_t holder) {
  return (uint32_t)holder;
}

static uint64_t self(void) {
  return (uint64_t)getpid() << 32;
}

static bool lives(pid_t pid) {
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

/* --- writing --- */

/* NULL if it has not claimed it. A forked process has its parent's claims, which are none of its
 * own. */
static ab__page_claim *own_claim(const ab_page *page, uint32_t index) {
  ab__page_claim *claim = ab__page_claim_of(page, index);
  return claim && claim->pid == getpid() ? claim : NULL;
}

bool ab_page_is_mine(const ab_page *page, uint32_t index) {
  if (!ab_page_is_read_only(page)) return own_claim(page, index) != NULL;
  uint64_t holder = __atomic_load_n(&ab_page_slot_of(page, index)->holder, __ATOMIC_RELAXED);
  return ab_page_pid(holder) == getpid();
}

bool ab_page_may_set(const ab_page *page, uint32_t index) {
  return ab_page_is_mine(page, index) || (pid_t)ab_page_head_of(page)->creator == getpid();
}

/* Nobody is within a claim. */
static void settle(ab_page_slot *slot) {
  uint32_t claims = claims_of(__atomic_load_n(&slot->holder, __ATOMIC_RELAXED));
  __atomic_store_n(&slot->settled, claims, __ATOMIC_RELEASE);
}

void ab_page_set_state(const ab_page *page, uint32_t index, enum ab_page_state state) {
  ab_page_slot *slot = ab_page_slot_of(page, index);
  ab__page_claim *claim = own_claim(page, index);
  if (claim) claim->state = state;
  if (!claim && !ab_page_is_live(state)) settle(slot);
  /* Relaxed: says nothing of other words. Partner: the load in read_once. */
  __atomic_store_n(&slot->state, (uint32_t)state, __ATOMIC_RELAXED);
}

/* Line 0, but for `settled`. */
static void tell(ab_page_slot *slot, const ab__page_claim *claim) {
  __atomic_store_n(&slot->state, claim->state, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->phase, claim->phase, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->taken_at, claim->taken_at, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->started_at, claim->started_at, __ATOMIC_RELAXED);
}

void ab_page_beat(const ab_page *page, uint32_t index, ab_nsec now) {
  ab_page_slot *slot = ab_page_slot_of(page, index);
  const ab__page_claim *claim = own_claim(page, index);
  /* Each word is what it was, unless others have written over it. */
  if (claim && ab_page_is_live((enum ab_page_state)claim->state)) {
    tell(slot, claim);
    __atomic_store_n(&slot->holder, self() | claim->number, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->settled, claim->number, __ATOMIC_RELEASE);
  }
  /* Relaxed, as the state. */
  __atomic_store_n(&slot->beat, now, __ATOMIC_RELAXED);
}

/* The counters go on in place; only what they were is written down. */
static void write_before(ab_page_slot *slot) {
  ab_figures figures = ab_figures_load(&slot->figures);
  ab_figures_clear_now(&slot->figures);
#define STORE(name, offset, bytes)                                                                 \
  __atomic_store_n(&slot->before.name, figures.name, __ATOMIC_RELAXED);
#define SLOT_NOTHING(name, offset, bytes)
  AB_FIGURES(STORE, SLOT_NOTHING)
#undef STORE
#undef SLOT_NOTHING
}

/* A process may have been killed when it had charged a state, and not noted that it had: what the
 * next one finds charged is all that there is. */
static void end_rows(ab_row *rows, uint32_t count, uint32_t *mark) {
  uint32_t used = ab__page_mark(mark, count);
  for (uint32_t i = 0; i < used; i++) {
    ab_row_open(
        &rows[i]); /* a reader that has found it in use shall not take it without its sums */
    ab_row_end(&rows[i]);
    AB_PUT(rows[i].touched, 0);
    ab_words_clear(rows[i].sums, sizeof(rows[i].sums));
    ab_row_close(&rows[i]);
  }
  AB_PUT(*mark, 0);
}

/* What there was in the last process, and is no more. Counters, names, events and history stay. */
static void clear_now(const ab_page_parts *parts) {
  end_rows(parts->rows, parts->row_count, &parts->slot->app.mark);
  end_rows(parts->queued, parts->queued_count, &parts->slot->queue.mark);
  for (uint32_t i = 0; i < parts->loop_count; i++) {
    /* Nothing is touched that was never used. */
    if (AB_GET(parts->loops[i].seq) || AB_GET(parts->loops[i].used))
      ab__loop_line_forget(&parts->loops[i]);
  }
  for (uint32_t i = 0; i < parts->client_count; i++) {
    if (AB_GET(parts->clients[i].seq) || AB_GET(parts->clients[i].requests))
      ab__page_client_forget(&parts->clients[i]);
  }
  uint32_t pools = ab_page_pools_used(&parts->slot->app.pools, parts->pool_count);
  for (uint32_t i = 0; i < pools; i++) ab__page_pool_forget(&parts->pools[i]);
  ab_page_process *process = &parts->slot->process;
  AB_PUT(process->cpu, 0);
  AB_PUT(process->stall_after, 0);
  AB_PUT(process->rss, 0);
  AB_PUT(process->fibers, 0);
  AB_PUT(process->fibers_most, 0);
  AB_PUT(process->threads, 0);
  AB_PUT(process->threads_most, 0);
  AB_PUT(process->offloads, 0);
  AB_PUT(process->places, 0);
  AB_PUT(process->queue_most, 0);
}

static bool is_taken(const ab_page_slot *slot, uint64_t holder) {
  uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
  bool settled = __atomic_load_n(&slot->settled, __ATOMIC_RELAXED) == claims_of(holder);
  pid_t pid = ab_page_pid(holder);
  return (ab_page_is_live((enum ab_page_state)state) || !settled) && pid != getpid() && lives(pid);
}

int ab_page_claim(ab_page *page, uint32_t index, uint32_t phase, ab_page_time now) {
  ab_page_parts parts = ab_page_parts_of(page, index);
  ab_page_slot *slot = parts.slot;
  /* Acquire: what the last process has written before it left is seen. */
  uint64_t holder = __atomic_load_n(&slot->holder, __ATOMIC_ACQUIRE);
  if (!ab_page_is_mine(page, index) && is_taken(slot, holder)) return AB_AGAIN;
  if (ab__page_reserve(page, index) != AB_OK) return AB_ENOSPC;
  uint64_t mine = self() | (uint32_t)(claims_of(holder) + 1);
  /* Of two that claim at once one gets it. From here until `settled` the rest is in between. */
  if (!__atomic_compare_exchange_n(&slot->holder, &holder, mine, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return AB_AGAIN;
  /* No store below is seen before the new holder. Partner: the fence in read_once. */
  __atomic_thread_fence(__ATOMIC_RELEASE);
  ab__page_claim *claim = ab__page_claim_of(page, index);
  *claim = (ab__page_claim){.pid = getpid(),
                            .number = claims_of(mine),
                            .state = AB_PAGE_BOOTING,
                            .phase = phase,
                            .taken_at = now.monotonic,
                            .started_at = now.unix_time};
  tell(slot, claim);
  __atomic_store_n(&slot->beat, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->figures.turned, 0, __ATOMIC_RELAXED);
  write_before(slot);
  clear_now(&parts);
  /* Release: all of the above is seen with it. Partner: the acquire in read_once. */
  __atomic_store_n(&slot->settled, claims_of(mine), __ATOMIC_RELEASE);
  return AB_OK;
}

/* --- reading --- */

static ab_page_view read_once(const ab_page_slot *slot) {
  /* Acquire: the rest belongs to this claim, or a later one. Partner: the release in a claim. */
  uint32_t settled = __atomic_load_n(&slot->settled, __ATOMIC_ACQUIRE);
  uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
  ab_page_view view = {
      .state = state < AB_PAGE_STATES ? (enum ab_page_state)state : AB_PAGE_ENDED,
      .phase = __atomic_load_n(&slot->phase, __ATOMIC_RELAXED),
      .taken_at = __atomic_load_n(&slot->taken_at, __ATOMIC_RELAXED),
      .started_at = __atomic_load_n(&slot->started_at, __ATOMIC_RELAXED),
      .beat = __atomic_load_n(&slot->beat, __ATOMIC_RELAXED),
      .turned = __atomic_load_n(&slot->figures.turned, __ATOMIC_RELAXED),
      .figures = ab_figures_load(&slot->before),
      .total = ab_figures_load(&slot->figures),
  };
  /* The loads above come before this one. Partner: the fence in a claim. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  uint64_t holder = __atomic_load_n(&slot->holder, __ATOMIC_RELAXED);
  view.claims = claims_of(holder);
  view.pid = ab_page_pid(holder);
  view.settled = settled == view.claims;
  return view;
}

ab_page_view ab_page_look(const ab_page_slot *slot) {
  ab_page_view view = read_once(slot);
  for (int i = 0; i < TRIES && !view.settled; i++) view = read_once(slot);
  ab_figures before = view.figures;
  if (!view.settled) { /* a process that has got no further has counted nothing */
    before = view.total;
    view.state = AB_PAGE_BOOTING;
    view.beat = view.turned = 0;
  }
  if (!ab_page_is_live(view.state)) ab_figures_clear_now(&view.total);
  if (view.state == AB_PAGE_EMPTY) view.pid = 0;
  view.figures = view.total;
  ab_figures_since(&view.figures, &before);
  return view;
}

ab_figures ab_page_sums(const ab_page *page) {
  ab_figures sums = {0};
  for (uint32_t i = 0; i < ab_page_size(page); i++) {
    ab_page_view view = ab_page_look(ab_page_slot_of(page, i));
    ab_figures_add(&sums, &view.total);
  }
  return sums;
}
