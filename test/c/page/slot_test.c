/* Slots: who takes them, what they say, and that no count is lost or counted twice. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "page/page.h"

static const ab_page_time start = {1000, 2000};

static ab_page *made; /* the last one */

static ab_page *new_page(uint32_t slots) {
  made = ab_page_create(&ab_mem_libc, &(ab_page_options){slots, 8, 4}, start);
  CHECK(made != NULL);
  return made;
}

static uint32_t index_of(const ab_page_slot *slot) {
  ptrdiff_t offset = (char *)slot - (char *)ab_page_slot_of(made, 0);
  uint32_t index = (uint32_t)offset / ab_page_head_of(made)->slot_size;
  CHECK(ab_page_slot_of(made, index) == slot);
  return index;
}

static int claim(ab_page_slot *slot, uint32_t phase, ab_page_time now) {
  return ab_page_claim(made, index_of(slot), phase, now);
}

static void set_state(ab_page_slot *slot, enum ab_page_state state) {
  ab_page_set_state(made, index_of(slot), state);
}

/* Runs fn in a child, which then ends, or waits to be killed. */
static pid_t in_child(void (*fn)(ab_page_slot *slot), ab_page_slot *slot, bool stays) {
  int done[2];
  char byte;
  CHECK_INT(0, pipe(done));
  pid_t pid = fork();
  if (pid == 0) {
    fn(slot);
    close(done[0]);
    close(done[1]);
    while (stays) pause();
    _exit(0);
  }
  close(done[1]);
  CHECK_INT(0, read(done[0], &byte, 1));
  close(done[0]);
  if (!stays) CHECK_INT(pid, waitpid(pid, NULL, 0));
  return pid;
}

static void kill_child(pid_t pid) {
  CHECK_INT(0, kill(pid, SIGKILL));
  CHECK_INT(pid, waitpid(pid, NULL, 0));
}

static void serve(ab_page_slot *slot) {
  CHECK_INT(AB_OK, claim(slot, 0, start));
  set_state(slot, AB_PAGE_SERVING);
  slot->figures.requests += 5;
  slot->figures.rejected[AB_REJECT_QUEUE_FULL] += 2;
  slot->figures.connections = 7;
}

CHECK_CASE(a_slot_is_taken) {
  ab_page *page = new_page(2);
  ab_page_slot *slot = ab_page_slot_of(page, 1);
  ab_page_view view = ab_page_look(slot);
  CHECK_INT(AB_PAGE_EMPTY, view.state);
  CHECK_INT(0, view.claims);
  CHECK_INT(0, view.pid);
  CHECK(!ab_page_is_mine(page, 1));
  CHECK_INT(AB_OK, claim(slot, 3, (ab_page_time){5, 6}));
  view = ab_page_look(slot);
  CHECK_INT(AB_PAGE_BOOTING, view.state);
  CHECK_INT(1, view.claims);
  CHECK_INT(getpid(), view.pid);
  CHECK_INT(3, view.phase);
  CHECK_INT(5, view.taken_at);
  CHECK_INT(6, view.started_at);
  CHECK_INT(0, view.beat);
  CHECK(ab_page_is_mine(page, 1));
  ab_page_beat(page, 1, 9);
  CHECK_INT(9, ab_page_look(slot).beat);
  CHECK_INT(AB_PAGE_EMPTY, ab_page_look(ab_page_slot_of(page, 0)).state);
  ab_page_drop(page);
}

CHECK_CASE(sums_go_on_when_a_slot_is_taken_over) {
  ab_page *page = new_page(2);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  for (unsigned i = 1; i <= 3; i++) {
    pid_t pid = in_child(serve, slot, true);
    ab_page_view view = ab_page_look(slot);
    CHECK_INT(5, view.figures.requests);
    CHECK_INT(7, view.figures.connections);
    CHECK_INT(5 * i, view.total.requests);
    CHECK_INT(i, view.claims);
    kill_child(pid);
    ab_figures sums = ab_page_sums(page);
    CHECK_INT(5 * i, sums.requests);
    CHECK_INT(2 * i, sums.rejected[AB_REJECT_QUEUE_FULL]);
    CHECK_INT(7, sums.connections); /* nobody has said that the process is no more */
  }
  set_state(slot, AB_PAGE_ENDED);
  CHECK_INT(0, ab_page_sums(page).connections);
  CHECK_INT(15, ab_page_sums(page).requests);
  CHECK_INT(5, ab_page_look(slot).figures.requests);
  CHECK_INT(AB_OK, claim(slot, 0, start));
  CHECK_INT(0, ab_page_look(slot).figures.requests);
  CHECK_INT(0, ab_page_look(slot).figures.connections);
  CHECK_INT(15, ab_page_sums(page).requests);
  ab_page_drop(page);
}

CHECK_CASE(a_slot_whose_process_is_alive_is_not_taken) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  pid_t pid = in_child(serve, slot, true);
  CHECK_INT(AB_AGAIN, claim(slot, 0, start));
  CHECK_INT(pid, ab_page_look(slot).pid);
  CHECK(ab_page_may_set(page, 0)); /* we have made the page */
  set_state(slot, AB_PAGE_ENDED);
  CHECK_INT(AB_OK, claim(slot, 0, start));
  kill_child(pid);
  ab_page_drop(page);
}

/* Waits for the others at `gate`, claims, and stays until all have. */
static void race(ab_page_slot *slot, unsigned *gate, unsigned count) {
  __atomic_fetch_add(&gate[0], 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&gate[0], __ATOMIC_SEQ_CST) < count) continue;
  bool won = claim(slot, 0, start) == AB_OK;
  __atomic_fetch_add(&gate[1], 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&gate[1], __ATOMIC_SEQ_CST) < count) usleep(100);
  _exit(won ? 0 : 1);
}

CHECK_CASE(of_many_that_claim_at_once_one_wins) {
  ab_page *page = new_page(1);
  unsigned *gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(gate != MAP_FAILED);
  for (int round = 1; round <= 20; round++) {
    gate[0] = gate[1] = 0;
    pid_t pids[4];
    int won = 0;
    for (int i = 0; i < 4; i++) {
      pids[i] = fork();
      if (pids[i] == 0) race(ab_page_slot_of(page, 0), gate, 4);
    }
    for (int i = 0; i < 4; i++) {
      int status = -1;
      CHECK_INT(pids[i], waitpid(pids[i], &status, 0));
      won += status == 0;
    }
    CHECK_INT(1, won);
    CHECK_INT(round, ab_page_look(ab_page_slot_of(page, 0)).claims);
  }
  munmap(gate, 4096);
  ab_page_drop(page);
}

/* As a claim leaves a slot when its process is killed at any place in it. */
CHECK_CASE(a_claim_that_was_cut_short) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  in_child(serve, slot, false);
  ab_page_slot before = *slot;
  pid_t dead = in_child(serve, slot, false);
  for (size_t words = 0; words <= sizeof *slot / sizeof(uint64_t); words++) {
    /* Nothing of the claim was done but the first store, and so many words of the rest. */
    *slot = before;
    slot->holder = (uint64_t)dead << 32 | 2;
    memset((char *)slot + offsetof(ab_page_slot, phase), 0x55,
           words * 8 < offsetof(ab_page_slot, beat) - offsetof(ab_page_slot, phase)
               ? words * 8
               : offsetof(ab_page_slot, beat) - offsetof(ab_page_slot, phase));
    size_t copied = words * 8 < sizeof slot->before ? words * 8 : sizeof slot->before;
    memcpy(&slot->before, &slot->figures, copied);
    ab_page_view view = ab_page_look(slot);
    CHECK(!view.settled);
    CHECK_INT(AB_PAGE_BOOTING, view.state);
    CHECK_INT(dead, view.pid);
    CHECK_INT(0, view.beat);
    CHECK_INT(0, view.figures.requests);
    CHECK_INT(5, ab_page_sums(page).requests);
    CHECK_INT(AB_OK, claim(slot, 0, start));
    CHECK_INT(3, ab_page_look(slot).claims);
    CHECK_INT(0, ab_page_look(slot).figures.requests);
    CHECK_INT(5, ab_page_sums(page).requests);
  }
  ab_page_drop(page);
}

/* Claims, counts, and goes on doing so, until it is killed. `told` counts beside. */
static void count_for_ever(ab_page_slot *slot, uint64_t *told) {
  for (;;) {
    if (claim(slot, 0, start) != AB_OK) _exit(1);
    set_state(slot, AB_PAGE_SERVING);
    for (int i = 0; i < 3; i++) {
      __atomic_fetch_add(told, 1, __ATOMIC_RELAXED);
      __atomic_store_n(&slot->figures.requests, slot->figures.requests + 1, __ATOMIC_RELAXED);
    }
  }
}

/* The process is killed anywhere, also in the middle of a claim: of what it has counted at most the
 * one is missing that it was about to count. */
CHECK_CASE(a_process_is_killed_anywhere) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  uint64_t *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(told != MAP_FAILED);
  uint64_t last = 0, missing = 0;
  for (int i = 0; i < 60; i++) {
    pid_t pid = fork();
    if (pid == 0) count_for_ever(slot, told);
    /* It has come this far; then it is killed wherever it is. */
    while (__atomic_load_n(told, __ATOMIC_RELAXED) < last + 100 + (uint64_t)i) {
      uint64_t sum = ab_page_sums(page).requests;
      CHECK(sum + missing + 1 >= last);
    }
    kill_child(pid);
    uint64_t sum = ab_page_sums(page).requests, now = __atomic_load_n(told, __ATOMIC_RELAXED);
    CHECK(sum + missing == now || sum + missing + 1 == now);
    missing = now - sum;
    last = now;
  }
  munmap(told, 4096);
  ab_page_drop(page);
}

/* A reader never sees what belongs to two processes, or a count less than one before. */
CHECK_CASE(a_reader_beside_a_writer) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  pid_t pid = fork();
  if (pid == 0) {
    for (uint32_t n = 1;; n++) {
      if (claim(slot, n, (ab_page_time){n, n}) != AB_OK) _exit(1);
      __atomic_store_n(&slot->figures.requests, slot->figures.requests + 1, __ATOMIC_RELAXED);
    }
  }
  uint64_t last = 0;
  unsigned settled = 0;
  while (last < 20000 && settled < 2000000) {
    ab_page_view view = ab_page_look(slot);
    CHECK(view.total.requests >= last);
    CHECK(view.figures.requests <= 1);
    if (!view.settled || view.claims == 0) continue; /* taken at each look */
    settled++;
    CHECK(view.phase == view.claims);
    CHECK(view.taken_at == view.claims && view.started_at == view.claims);
    last = view.total.requests;
  }
  kill_child(pid);
  CHECK(settled > 0);
  ab_page_drop(page);
}

CHECK_CASE(what_other_states_say) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  CHECK_INT(AB_OK, claim(slot, 0, start));
  slot->figures.in_app = 3;
  for (enum ab_page_state state = AB_PAGE_EMPTY; state < AB_PAGE_STATES; state++) {
    set_state(slot, state);
    bool live = state != AB_PAGE_EMPTY && state != AB_PAGE_ENDED;
    CHECK_INT(state, ab_page_look(slot).state);
    CHECK_INT(live ? 3 : 0, ab_page_sums(page).in_app);
  }
  slot->state = 77; /* of another version's */
  CHECK_INT(AB_PAGE_ENDED, ab_page_look(slot).state);
  ab_page_drop(page);
}

/* Whatever others write over what a process has said of itself: it knows, and says it again. */
CHECK_CASE(a_claim_is_told_again) {
  ab_page *page = new_page(2);
  ab_page_slot *slot = ab_page_slot_of(page, 1);
  CHECK_INT(AB_OK, claim(slot, 3, (ab_page_time){5, 6}));
  set_state(slot, AB_PAGE_SERVING);
  ab_page_view before = ab_page_look(slot);
  for (int byte = 0; byte < 256; byte += 51) {
    memset(slot, byte, offsetof(ab_page_slot, beat));
    CHECK(ab_page_is_mine(page, 1));
    CHECK(ab_page_may_set(page, 1));
    ab_page_beat(page, 1, 9);
    ab_page_view view = ab_page_look(slot);
    CHECK(view.settled);
    CHECK_INT(before.pid, view.pid);
    CHECK_INT(before.claims, view.claims);
    CHECK_INT(AB_PAGE_SERVING, view.state);
    CHECK_INT(3, view.phase);
    CHECK_INT(5, view.taken_at);
    CHECK_INT(6, view.started_at);
    CHECK_INT(9, view.beat);
  }
  CHECK(!ab_page_is_mine(page, 0));
  ab_page_drop(page);
}

static void look_in_a_child(ab_page_slot *slot) {
  if (ab_page_is_mine(made, index_of(slot))) _exit(1);
  ab_page_beat(made, index_of(slot), 77);
  _exit(slot->holder >> 32 == (uint64_t)getppid() ? 0 : 2);
}

CHECK_CASE(a_forked_process_has_not_claimed_it) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  int status = -1;
  CHECK_INT(AB_OK, claim(slot, 0, start));
  pid_t pid = fork();
  if (pid == 0) look_in_a_child(slot);
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK_INT(0, status);
  ab_page_drop(page);
}

/* The creator knows which slots are free: whoever seems to have one, and to live. */
CHECK_CASE(a_slot_that_the_creator_frees) {
  ab_page *page = new_page(1);
  ab_page_slot *slot = ab_page_slot_of(page, 0);
  for (unsigned way = 0; way < 2; way++) {
    slot->holder = (uint64_t)getppid() << 32 | 7;
    slot->settled = way ? 7 : 4;
    slot->state = AB_PAGE_SERVING;
    CHECK_INT(AB_AGAIN, claim(slot, 0, start));
    set_state(slot, way ? AB_PAGE_EMPTY : AB_PAGE_ENDED);
    CHECK_INT(way ? 0 : getppid(), ab_page_look(slot).pid);
    CHECK_INT(AB_OK, claim(slot, 0, start));
    CHECK_INT(8, ab_page_look(slot).claims);
    ab_page_drop(page);
    page = new_page(1);
    slot = ab_page_slot_of(page, 0);
  }
  ab_page_drop(page);
}

CHECK_MAIN()
