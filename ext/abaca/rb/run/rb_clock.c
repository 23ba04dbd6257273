#include "rb/run/rb_clock.h"

#include "os/cpu_time.h"
#include "rb/rack/rb_line.h"
#include "rb/run/rb_costs.h"

/* --- a request --- */

void ab_clock_begin(ab_call *call, ab_nsec now) {
  if (call->measure.route.serial) call->measure.computed = ab_os_thread_cpu_time();
  if (call->row) ab_sight_runs(call, now);
}

/* Without memory for its work nothing but its beginning and its end is known. */
void ab_clock_end(ab_call *call, ab_nsec now) {
  ab_work_times times = {0, 0};
  bool measured = call->measure.route.serial != 0;
  if (AB_LIKELY(call->work != NULL)) {
    times = ab_loop_end_work(ab_driver_of(call->runner)->loop, call->work, now);
  } else if (call->row) {
    ab_sight_turn(call, AB_STATE_RUN, NULL, now);
    ab_line_shows(call->runner, AB_LOOP_STATE_IDLE, NULL, now);
  }
  if (AB_UNLIKELY(measured)) {
    ab_costs_end(call, times);
  } else {
    ab_costs_learn(call, call->row ? call->row->sums[AB_STATE_RUN] : UINT64_MAX);
  }
  call->work = NULL;
}

void ab_clock_settle(ab_call *call, ab_nsec now) {
  if (call->work) {
    ab_loop_settle_work(ab_driver_of(call->runner)->loop, call->work, now);
  } else if (call->row) {
    ab_sight_turn(call, ab_row_state(call->row), NULL, now);
  }
}

/* --- the threads that run requests --- */

static void waited(void *sight, enum ab_state state, ab_nsec time) {
  ab_sight_waited(sight, state, time);
}

static void stalled(void *ctx, ab_nsec time) {
  ab_sight_stalled(ctx, time);
}

static ab_series *series(ab_sight *sight, enum ab_series_kind kind) {
  ab_series_key key = {.kind = (uint8_t)kind, .route = AB_SERIES_NO_ROUTE};
  return sight->parts.series_count < AB_SERIES_KIND_COUNT ? NULL
                                                          : ab_series_find(&sight->series, key);
}

static void show_loop(ab_driver *driver, bool main) {
  const ab_run *run = driver->run;
  ab_sight *sight = run->rack.sight;
  const ab_loop_sight shown = {
      .services = &run->services,
      .waited = waited,
      .stalled = stalled,
      .ctx = sight,
      .stall_after = sight->stall_after,
      .line = driver->runner.line,
      .rows = sight->parts.rows,
      .lag = series(sight, main ? AB_SERIES_LOOP_LAG : AB_SERIES_LOOP_LAG_SPARE),
      .gvl = series(sight, main ? AB_SERIES_GVL_LOOP : AB_SERIES_GVL_SPARE),
  };
  ab_loop_set_sight(driver->loop, &shown);
}

static enum ab_loop_kind clock_kind_of(const ab_driver *driver) {
  if (!driver->loop) return driver == &driver->run->main ? AB_LOOP_GUEST : AB_LOOP_THREAD;
  return driver == &driver->run->main ? AB_LOOP_MAIN : AB_LOOP_SPARE;
}

static uint8_t mode_of(const ab_driver *driver) {
  if (driver->run->guest) return AB_ROW_GUEST;
  return driver->runner.executor->mode == AB_MODE_THREAD ? AB_ROW_THREAD : AB_ROW_FIBER;
}

void ab_clock_attach(ab_driver *driver) {
  ab_run *run = driver->run;
  driver->runner.place = run->places++;
  driver->runner.shown_mode = mode_of(driver);
  driver->runner.loop = driver->loop;
  if (!run->rack.sight) return;
  enum ab_loop_kind kind = clock_kind_of(driver);
  ab_line_begin(&driver->runner, kind);
  if (driver->loop) show_loop(driver, kind == AB_LOOP_MAIN);
  ab__clock_set_thread(run, driver);
  driver->attached = true;
}

void ab_clock_detach(ab_driver *driver) {
  if (driver->loop) ab_loop_set_sight(driver->loop, NULL);
  ab_line_end(&driver->runner);
  if (driver->attached) ab__clock_set_thread(driver->run, NULL);
  driver->attached = false;
}
