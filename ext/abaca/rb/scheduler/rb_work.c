/* Work: what a loop runs on behalf of a request, until its fiber, or one that it has resumed, gives
 * the loop back. The waiter of that wait remembers the work, and so does that of a fiber which a
 * sibling's Fiber#raise or a stray transfer has left behind. A row shows what the work does; how
 * long it keeps the loop at a stretch is measured, too, where that is wanted.
 * A fiber that work has resumed may wake up after its end. So the loop owns the memory of works,
 * and a waiter checks the serial. */
#include "rb/scheduler/rb_work.h"

#include "os/cpu_time.h"

#define UNKNOWN UINT64_MAX
/* Of a stretch that is shorter all counts as computing. */
#define CHEAP (AB_NSEC_PER_MS / 10)
/* A longer one is worth the question whether others had the processor. */
#define LONG (5 * AB_NSEC_PER_MS)

/* --- how long it keeps the loop --- */

/* Ruby may give the GVL to another thread for 100 ms and more at any time. Where others compute,
 * only the thread's own computing time counts; that clock costs a system call. */
static AB_NOINLINE void measure_stretch(ab_loop *loop, ab_work *work, ab_nsec now) {
  const ab_loop_client *client = loop->client;
  bool contended = client && client->contended && client->contended(loop->client_ctx);
  work->computed = AB_UNLIKELY(contended) ? ab_os_thread_cpu_time() : UNKNOWN;
  work->since = now;
}

static inline void begin_stretch(ab_loop *loop, ab_work *work, ab_nsec now) {
  if (AB_UNLIKELY(work->measured)) measure_stretch(loop, work, now);
}

static ab_nsec lost(const ab_loop *loop) {
  const ab_loop_client *client = loop->client;
  return client && client->lost ? client->lost(loop->client_ctx) : 0;
}

static AB_NOINLINE void charge_stretch(const ab_loop *loop, ab_work *work, ab_nsec now) {
  /* The excused time may exceed the measured time, by a tick of the clock. */
  ab_nsec time = now > work->since ? now - work->since : 0;
  if (AB_UNLIKELY(work->computed != UNKNOWN) && time > CHEAP) {
    ab_nsec computed = ab_os_thread_cpu_time();
    if (computed != UNKNOWN && computed - work->computed < time) time = computed - work->computed;
  } else if (time > LONG) {
    ab_nsec others = lost(loop);
    time = time > others ? time - others : 0;
  }
  if (time > work->longest) work->longest = time;
  work->total += time;
}

static inline void end_stretch(const ab_loop *loop, ab_work *work, ab_nsec now) {
  if (AB_UNLIKELY(work->measured)) charge_stretch(loop, work, now);
}

void ab_loop_excuse(ab_loop *loop, ab_nsec time) {
  loop->excused += time;
  if (loop->work) loop->work->since += time;
}

/* --- what its row shows --- */

/* Of the time that it has run, collections are told apart. */
static AB_NOINLINE void charge_long_run(ab_loop *loop, const ab_work *work, ab_nsec ran) {
  ab_nsec most = loop->sight.stall_after;
  if (most && ran >= most) {
    AB_ROW_SET(work->row, stalls, work->row->stalls + 1);
    AB_ROW_SET(work->row, stall_time, work->row->stall_time + ran);
  }
  ab_nsec collected = ab_collected_end(&loop->collected, ran);
  if (collected > 0) ab_row_shift(work->row, AB_STATE_RUN, AB_STATE_GC, collected);
}

/* It stops running. Other threads may have had the GVL in between (3.2):
 * what it has run before and after that is one stretch. */
static inline void charge_run(ab_loop *loop, ab_work *work) {
  ab_nsec ran = work->row->sums[AB_STATE_RUN] - work->ran;
  if (AB_UNLIKELY(ran >= AB_COLLECTED_MIN)) charge_long_run(loop, work, ran);
  work->ran = work->row->sums[AB_STATE_RUN];
}

enum ab_state ab_state_of_wait(enum ab_wait_kind kind) {
  static const uint8_t states[] = {
      [AB_WAIT_BLOCK] = AB_STATE_LOCK,
      [AB_WAIT_SLEEP] = AB_STATE_SLEEP,
      [AB_WAIT_IO] = AB_STATE_IO,
      [AB_WAIT_FILE] = AB_STATE_DISK,
      [AB_WAIT_PROCESS] = AB_STATE_PROCESS,
      [AB_WAIT_DNS] = AB_STATE_DNS,
      [AB_WAIT_OPERATION] = AB_STATE_OFFLOAD,
      [AB_WAIT_REQUIRE] = AB_STATE_REQUIRE,
      [AB_WAIT_REQUEST_BODY] = AB_STATE_BODY,
      [AB_WAIT_RESPONSE_DRAIN] = AB_STATE_DRAIN,
      [AB_WAIT_STREAM] = AB_STATE_IO,
  };
  return (size_t)kind < AB_ARRAY_LEN(states) ? states[kind] : AB_STATE_SCHED;
}

/* From now on it waits. A descriptor tells what is at its other end. */
static void show_wait(ab_loop *loop, const ab_work *work, const ab_waiter *waiter, ab_nsec now) {
  enum ab_state state = ab_state_of_wait(waiter->kind);
  const ab_addr *peer = NULL;
  if (waiter->kind == AB_WAIT_IO) state = ab__fd_service(loop, waiter, &peer);
  if (work->said != AB_STATE_COUNT && state != AB_STATE_SCHED) state = (enum ab_state)work->said;
  if (peer) {
    ab_row_wait(work->row, state, peer, now);
  } else {
    ab_row_turn(work->row, state, now);
  }
}

/* --- life --- */

ab_work *ab_loop_work(const ab_loop *loop) {
  return loop->work;
}

void ab_loop_set_sight(ab_loop *loop, const ab_loop_sight *sight) {
  loop->sight = sight ? *sight : (ab_loop_sight){.ctx = NULL};
}

static AB_NOINLINE ab_work *make(ab_loop *loop) {
  ab_work *work = ab_alloc_zero(&ab_mem_libc, sizeof(*work));
  if (!work) return NULL;
  work->said = AB_STATE_COUNT;
  work->next = loop->works;
  loop->works = work;
  return work;
}

ab_work *ab_loop_begin_work(ab_loop *loop, ab_row *row, bool measured, ab_nsec now) {
  ab_work *work = loop->idle_works;
  if (AB_LIKELY(work != NULL)) {
    loop->idle_works = work->next_idle;
  } else if (!(work = make(loop))) {
    return NULL;
  }
  work->row = row;
  work->measured = measured;
  begin_stretch(loop, work, now);
  ab__loop_runs(loop, work);
  return work;
}

ab_work_times ab_loop_end_work(ab_loop *loop, ab_work *work, ab_nsec now) {
  if (AB_LIKELY(loop->work == work)) {
    ab__loop_runs(loop, NULL);
    end_stretch(loop, work, now);
    if (AB_LIKELY(work->row != NULL)) {
      ab_row_turn(work->row, AB_STATE_RUN, now);
      charge_run(loop, work);
    }
  } else if (work->row) {
    ab_row_turn(work->row, AB_STATE_RUN, now);
  }
  ab_work_times times = {work->longest, work->total};
  work->ran = 0;
  work->measured = false;
  work->longest = work->total = 0;
  ab_loop_end_plain_work(loop, work);
  return times;
}

void ab_loop_settle_work(ab_loop *loop, ab_work *work, ab_nsec now) {
  if (loop->work != work || !work->row) return;
  ab_row_turn(work->row, AB_STATE_RUN, now);
  charge_run(loop, work);
}

void ab__works_fini(ab_loop *loop) {
  for (ab_work *work = loop->works, *next; work; work = next) {
    next = work->next;
    ab_free(&ab_mem_libc, work);
  }
}

/* --- children --- */

static void count_child(const ab_work *work, int change) {
  int count = work->row->children + change;
  if (count >= 0 && count <= UINT16_MAX) AB_ROW_SET(work->row, children, (uint16_t)count);
}

void ab__child_begins(ab_loop *loop, ab_child *child) {
  ab_work *work = loop->parent;
  loop->parent = NULL;
  if (!work || !work->row) return;
  *child = (ab_child){work, work->serial};
  count_child(work, 1);
}

/* The work may be over, and its memory another one's. */
void ab__child_ends(const ab_child *child) {
  const ab_work *work = child->work;
  if (work && work->serial == child->serial && work->row) count_child(work, -1);
}

/* --- waits --- */

void ab__work_pause(ab_loop *loop, ab_waiter *waiter) {
  ab_work *work = loop->work;
  ab_nsec now = ab_clock_monotonic();
  ab__loop_runs(loop, NULL);
  waiter->work = work;
  waiter->work_serial = work->serial;
  end_stretch(loop, work, now);
  if (!work->row) return;
  show_wait(loop, work, waiter, now);
  charge_run(loop, work);
}

static ab_work *work_of(const ab_waiter *waiter) {
  ab_work *work = waiter->work;
  return work && work->serial == waiter->work_serial ? work : NULL;
}

void ab__work_waits_on(ab_loop *loop, ab_waiter *waiter) {
  ab_work *work = work_of(waiter);
  if (work && work->row) show_wait(loop, work, waiter, ab_clock_monotonic());
}

static void note_wait(const ab_loop *loop, const ab_row *row, ab_nsec now) {
  enum ab_state state = ab_row_state(row);
  if (loop->sight.waited && state != AB_STATE_GVL && now > row->since)
    loop->sight.waited(loop->sight.ctx, state, now - row->since);
}

/* Of a look at the poller all that it wakes was woken by its end; then the loop has waited for the
 * GVL. The clock is read once for it. */
static ab_nsec woken_by_poller(ab_loop *loop, ab_row *row) {
  if (loop->looked == 0) loop->looked = ab_clock_monotonic();
  if (loop->polled != 0) {
    note_wait(loop, row, loop->polled);
    ab_row_turn(row, AB_STATE_GVL, loop->polled);
  }
  return loop->looked;
}

/* Its turn would have been there long before: the loop has waited for the GVL. */
#define LONG_FOR_GVL (AB_NSEC_PER_MS / 10)

/* Its time has passed, perhaps while the loop waited for the poller, and then for the GVL. */
static void woken_by_timer(const ab_loop *loop, ab_row *row, ab_nsec deadline) {
  note_wait(loop, row, deadline);
  ab_row_turn(row, AB_STATE_SCHED, deadline);
  if (loop->polled == 0 || loop->now < loop->polled + LONG_FOR_GVL) return;
  ab_row_turn(row, AB_STATE_GVL, loop->polled);
  ab_row_turn(row, AB_STATE_SCHED, loop->now);
}

void ab__work_woken(ab_loop *loop, const ab_waiter *waiter, enum ab_wake wake) {
  const ab_work *work = work_of(waiter);
  if (!work || !work->row) return;
  if (wake == AB_WAKE_TIMEOUT && !loop->delivers) {
    woken_by_timer(loop, work->row, waiter->timer.deadline);
    return;
  }
  ab_nsec now = loop->delivers ? woken_by_poller(loop, work->row) : ab_clock_monotonic();
  note_wait(loop, work->row, now);
  ab_row_turn(work->row, AB_STATE_SCHED, now);
}

/* While it was its turn, the loop gave way to threads. */
static void tell_lock_apart(const ab_loop *loop, ab_row *row, ab_nsec now) {
  ab_nsec from = loop->gave_way > row->since ? loop->gave_way : row->since;
  ab_nsec until = loop->had_way < now ? loop->had_way : now;
  if (ab_row_state(row) != AB_STATE_SCHED || until <= from) return;
  ab_row_turn(row, AB_STATE_GVL, from);
  ab_row_turn(row, AB_STATE_SCHED, until);
}

void ab__work_go_on(ab_loop *loop, const ab_waiter *waiter) {
  ab_work *work = work_of(waiter);
  if (!work) return;
  ab_nsec now = ab_clock_monotonic();
  if (work->row) {
    if (AB_UNLIKELY(loop->had_way > work->row->since)) tell_lock_apart(loop, work->row, now);
    ab_row_turn(work->row, AB_STATE_RUN, now);
  }
  begin_stretch(loop, work, now);
  ab__loop_runs(loop, work);
}
