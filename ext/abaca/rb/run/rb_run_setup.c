/* The life of what runs requests: made, told its options, marked and freed. */
#include "rb/run/rb_run.h"

#include <stdlib.h>

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_rack_setup.h"
#include "rb/run/rb_clock.h"
#include "rb/run/rb_costs.h"
#include "rb/run/rb_guest.h"
#include "rb/run/rb_out_of_band.h"
#include "rb/run/rb_routes.h"
#include "rb/run/rb_slow.h"
#include "rb/run/rb_spare.h"
#include "rb/run/rb_stalls.h"
#include "rb/run/rb_thread_pool.h"

static const ab_call_hooks hooks = {
    .begins = ab_clock_begin,
    .ends = ab_clock_end,
    .settle = ab_clock_settle,
    .waits = ab_slow_begin,
    .goes_on = ab_slow_end,
    .left = ab_slow_left,
};

void ab_run_init(ab_run *run, VALUE self) {
  ab_rack_init(&run->rack, self);
  ab_runner_init_bare(&run->main.runner, &run->rack, NULL);
  run->main.run = run;
  run->rack.main = &run->main.runner;
  run->rack.hooks = &hooks;
  run->out_of_band.begin = Qnil;
  ab_stalls_init(&run->stalls);
  ab_spares_init(&run->spares);
}

/* Returns the most threads that requests may run on. */
static unsigned configure_threads(ab_run *run, VALUE options) {
  VALUE threads = ab_option(options, "threads");
  if (NIL_P(threads)) return 0;
  Check_Type(threads, T_ARRAY);
  ab_thread_pool_options pool = {
      .min = NUM2UINT(rb_ary_entry(threads, 0)),
      .max = NUM2UINT(rb_ary_entry(threads, 1)),
      .most = NUM2SIZET(ab_option(options, "max_waiting")),
      .clean = RTEST(ab_option(options, "clean_thread_locals")),
      .begins = ab_option(options, "thread_begins"),
      .ends = ab_option(options, "thread_ends"),
  };
  run->threads = ab_thread_pool_init(run, &pool);
  ab_routes_init(&run->routes, ab_option(options, "routes"));
  run->mode = ab_mode_of(ab_option(options, "default_mode"));
  return pool.max;
}

void ab_run_configure(ab_run *run, VALUE options) {
  VALUE max_fibers = ab_option(options, "max_fibers");
  if (ab_runner_init(&run->main.runner, &run->rack, NULL) != AB_OK) rb_memerror();
  ab_stalls_configure(run, options);
  run->max_fibers = NIL_P(max_fibers) ? UINT32_MAX : NUM2UINT(max_fibers);
  unsigned threads = configure_threads(run, options);
  ab_costs_init(run, options);
  ab_slow_init(run, run->max_fibers, threads);
  ab_routes_buffer_bodies(run, options);
  ab_out_of_band_configure(run, options);
}

void ab_run_mark(ab_run *run) {
  ab_rack_mark(&run->rack);
  rb_gc_mark(run->main.runner.thread);
  rb_gc_mark(run->out_of_band.begin);
  ab_stalls_mark(&run->stalls);
  ab_spares_mark(&run->spares);
  if (run->guest) ab_guest_mark(run->guest);
  if (run->threads) ab_thread_pool_mark(run->threads);
}

static void free_services(ab_services *services) {
  for (size_t i = 0; i < services->count; i++) free(services->rules[i].path);
  ab_free(&ab_mem_libc, services->rules);
}

void ab_run_fini(ab_run *run) {
  ab_clock_forget(run);
  ab_spares_fini(&run->spares);
  ab_guest_fini(run->guest);
  ab_thread_pool_fini(run->threads);
  ab_route_stats_fini(run->route_stats);
  ab_routes_fini(&run->streams);
  ab_routes_fini(&run->ignored);
  ab_routes_fini(&run->routes);
  ab_runner_fini(&run->main.runner);
  free_services(&run->services);
  ab_rack_fini(&run->rack);
}
