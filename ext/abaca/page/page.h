/* The page as a process has it mapped: created before the first fork, or opened by a reader that is
 * no part of the server. layout.h has what stands in it. */
#ifndef AB_PAGE_PAGE_H
#define AB_PAGE_PAGE_H

#include <sys/types.h>

#include "base/mem.h"
#include "page/layout.h"

/* Holds are counted within the process, by one thread at a time. */
typedef struct ab_page ab_page;

/* A moment by both clocks. */
typedef struct ab_page_time {
  ab_nsec monotonic, unix_time;
} ab_page_time;

typedef struct ab_page_options {
  uint32_t slots; /* 1 to AB_PAGE_MAX_SLOTS */
  uint32_t rows;  /* in each, for requests in the application; */
  uint32_t
      queued; /* for those that wait: both together AB_PAGE_MAX_ROWS at most, the rest is cut */
} ab_page_options;

/* A page with empty slots in memory without a name in any file system; NULL with errno. Children of
 * fork share it. The caller holds it. What is not used takes address space only. */
ab_page *ab_page_create(const ab_mem *mem, const ab_page_options *options,
                        ab_page_time now) AB_WARN_UNUSED;
/* The same in an unlinked file below `directory`: where there is no memfd_create. Its areas are
 * small (page.c), and a slot's are reserved on the file system when it is first claimed. */
ab_page *ab__page_create_in(const ab_mem *mem, const char *directory,
                            const ab_page_options *options, ab_page_time now) AB_WARN_UNUSED;
/* The same in a file that others find at `path`, in place of one that is there. The caller removes
 * it. */
ab_page *ab_page_create_at(const ab_mem *mem, const char *path, const ab_page_options *options,
                           ab_page_time now) AB_WARN_UNUSED;
/* Maps the page of another process, for reading. `fd` is borrowed. NULL with *error: AB_ESYS with
 * errno, AB_ENOMEM, AB_EINVAL: no page of Abaca's, AB_ELIMIT: a layout of the version *version,
 * which is not AB_PAGE_VERSION. */
ab_page *ab_page_open(const ab_mem *mem, int fd, int *error, uint32_t *version) AB_WARN_UNUSED;

/* True for one that was opened: nothing in it may be written. */
bool ab_page_is_read_only(const ab_page *page);
/* The memory's descriptor, lent until the last drop; -1 for one that was opened. */
int ab_page_fd(const ab_page *page);

void ab_page_hold(ab_page *page);
/* Unmaps it with the last hold. */
void ab_page_drop(ab_page *page);

/* A pair of sockets that was made with the page, for messages between its processes; NULL for one
 * that was opened. Lent until the last drop. */
const int *ab_page_relay(const ab_page *page);

/* As it was when it was mapped. */
const ab_page_head *ab_page_head_of(const ab_page *page);
uint32_t ab_page_size(const ab_page *page);
/* index < ab_page_size. Lent until the last drop. */
ab_page_slot *ab_page_slot_of(const ab_page *page, uint32_t index);

/* A slot and its areas; a count may be 0. Lent until the last drop. */
typedef struct ab_page_parts {
  ab_page_slot *slot;
  ab_loop_line *loops;
  ab_row *rows, *queued;
  ab_page_route *routes;
  ab_series *series;
  ab_page_event *events;
  ab_row *kept;
  ab_history_record *seconds, *tens;
  ab_page_client *clients;
  ab_exemplars *exemplars;
  ab_page_pool *pools;
  uint32_t loop_count, row_count, queued_count, route_count, series_count, event_count, kept_count,
      second_count, ten_count, client_count, exemplar_count, pool_count;
} ab_page_parts;

ab_page_parts ab_page_parts_of(const ab_page *page, uint32_t index);
/* The same for a reader: without areas if no process has ever had the slot, since even a look takes
 * memory. */
ab_page_parts ab_page_parts_to_read(const ab_page *page, uint32_t index);

/* --- slots --- */

static inline pid_t ab_page_pid(uint64_t holder) {
  return (pid_t)(holder >> 32);
}

/* Does its process live, as far as it says? */
static inline bool ab_page_is_live(enum ab_page_state state) {
  return state == AB_PAGE_BOOTING || state == AB_PAGE_SERVING || state == AB_PAGE_DRAINING;
}

/* This process takes the slot from one that has ended: state BOOTING, and no heartbeat yet; rows,
 * loops and clients are cleared. What earlier ones have counted stays in the sums; wherever a
 * process is killed in here, no count is lost, and none counted twice. AB_OK, AB_AGAIN: another
 * process has the slot, and is alive, or AB_ENOSPC: the page is a file, and there is no room for
 * the slot. */
int ab_page_claim(ab_page *page, uint32_t index, uint32_t phase, ab_page_time now) AB_WARN_UNUSED;
/* May this process write the slot's state? The one that has it, and the page's creator. */
bool ab_page_may_set(const ab_page *page, uint32_t index);
/* Has this process claimed it? Whatever the page says, unless that was opened. */
bool ab_page_is_mine(const ab_page *page, uint32_t index);
/* By the creator, AB_PAGE_ENDED and AB_PAGE_EMPTY say that its process is no more, whatever the
 * page says of that: it may be claimed. */
void ab_page_set_state(const ab_page *page, uint32_t index, enum ab_page_state state);
/* Also says once more what the process has said of its claim. For the one that has it. */
void ab_page_beat(const ab_page *page, uint32_t index, ab_nsec now);

/* What is in a slot, without a lock and without waiting for its writer. */
typedef struct ab_page_view {
  /* False while the slot is being taken, or after a process was killed at that: what follows `pid`
   * may then be of an earlier process, but for the state, the heartbeat and the figures. */
  bool settled;
  uint32_t claims; /* how often it was taken */
  pid_t pid;       /* 0 in an empty slot */
  enum ab_page_state state;
  uint32_t phase;
  ab_nsec taken_at, started_at, beat, turned;
  ab_figures figures; /* of this process; there is nothing `now` without one */
  ab_figures total;   /* the same, with the counters of all that have had the slot */
} ab_page_view;

ab_page_view ab_page_look(const ab_page_slot *slot);

/* What one worker has to know of another. */
typedef struct ab_page_glance {
  uint32_t state; /* enum ab_page_state */
  bool shut;
  uint32_t pressure;
  ab_nsec turned, due;
} ab_page_glance;

/* Costs next to nothing. */
static inline ab_page_glance ab_page_glance_at(const ab_page_slot *slot) {
  /* Relaxed, as in a look: each word says nothing of the others. */
  return (ab_page_glance){
      .state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED),
      .shut = __atomic_load_n(&slot->figures.shut, __ATOMIC_RELAXED) != 0,
      .pressure = __atomic_load_n(&slot->figures.pressure, __ATOMIC_RELAXED),
      .turned = __atomic_load_n(&slot->figures.turned, __ATOMIC_RELAXED),
      .due = __atomic_load_n(&slot->figures.due, __ATOMIC_RELAXED),
  };
}
/* Over all slots. */
ab_figures ab_page_sums(const ab_page *page);

#endif
