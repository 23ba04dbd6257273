/* Routes: what a path's is, when they move and come back, and what a flood of them does. */
#include "engine/route_stats.h"

#include "check.h"

#define MS AB_NSEC_PER_MS

static const ab_route_stats_options options = {.threshold = 50 * MS, .least = 20, .seed = 42};

static ab_route_stats *make(void) {
  return ab_route_stats_init(&ab_mem_libc, &options, NULL, 0);
}

static ab_view view(const char *text) {
  return (ab_view){text, strlen(text)};
}

static ab_route path(ab_route_stats *route_stats, const char *text) {
  return ab_route_stats_path(route_stats, view(text));
}

/* So many requests for the path, where it is to run; returns the last move. */
static enum ab_route_move ask(ab_route_stats *route_stats, const char *text, unsigned count,
                              ab_nsec time) {
  enum ab_route_move last = AB_ROUTE_STAYS;
  for (unsigned i = 0; i < count; i++) {
    ab_route route = path(route_stats, text);
    enum ab_route_move move = ab_route_stats_note(
        route_stats, route, ab_route_stats_on_threads(route_stats, route), time);
    if (move != AB_ROUTE_STAYS) last = move;
  }
  return last;
}

static bool on_threads(ab_route_stats *route_stats, const char *text) {
  return ab_route_stats_on_threads(route_stats, path(route_stats, text));
}

CHECK_CASE(paths_are_alike) {
  static const char *const table[][2] = {
      {"/", "/"},
      {"", ""},
      {"*", "*"},
      {"/hello", "/hello"},
      {"/users/123/report", "/users/*/report"},
      {"/users/9/report", "/users/*/report"},
      {"/users/550e8400-e29b-41d4-a716-446655440000", "/users/*"},
      {"/users/", "/users/"},
      {"//a", "//a"},
      {"/r%65ports/x", "/*/x"},
      {"/abcdefghijklmnopqrstuvwx", "/abcdefghijklmnopqrstuvwx"},
      {"/abcdefghijklmnopqrstuvwxy", "/*"},
      {"/a/b/c/d", "/a/b/c/d"},
      {"/a/b/c/d/", "/a/b/c/d/"},
      {"/a/b/c/d/e", "/a/b/c/d/*"},
      {"/a/b/c/d/e/f/1", "/a/b/c/d/*"},
      {"/1/2/3/4/5", "/*/*/*/*/*"},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    char key[AB_ROUTE_STATS_KEY_MAX];
    size_t len = ab__route_stats_key(view(table[i][0]), key);
    CHECK_BYTES(table[i][1], key, len);
  }
}

CHECK_CASE(the_longest_key_fits) {
  char text[4096], key[AB_ROUTE_STATS_KEY_MAX];
  memset(text, 'a', sizeof(text));
  for (size_t i = 0; i < sizeof(text); i += 25) text[i] = '/';
  size_t len = ab__route_stats_key((ab_view){text, sizeof(text)}, key);
  CHECK_INT(1 + 4 * 25 + 1, len);
  CHECK(key[len - 1] == '*');
}

CHECK_CASE(twenty_requests_and_two_of_them_slow) {
  ab_route_stats *route_stats = make();
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/slow", 19, 900 * MS));
  CHECK(!on_threads(route_stats, "/slow"));
  CHECK_INT(AB_ROUTE_TO_THREADS, ask(route_stats, "/slow", 1, MS));
  CHECK(on_threads(route_stats, "/slow"));
  CHECK(!on_threads(route_stats, "/fast"));

  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/one", 1, 900 * MS));
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/one", 200, 50 * MS));
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/two", 2, 900 * MS));
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/two", 17, MS));
  CHECK_INT(AB_ROUTE_TO_THREADS, ask(route_stats, "/two", 1, MS));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(one_that_turns_slow_later_moves_soon) {
  ab_route_stats *route_stats = make();
  ask(route_stats, "/a", 10000, MS);
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/a", 6, 90 * MS));
  CHECK_INT(AB_ROUTE_TO_THREADS, ask(route_stats, "/a", 1, 90 * MS));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(the_same_route_by_other_ids) {
  ab_route_stats *route_stats = make();
  for (unsigned i = 0; i < 20; i++) {
    char text[32];
    snprintf(text, sizeof(text), "/users/%u/report", i);
    ask(route_stats, text, 1, 90 * MS);
  }
  CHECK(on_threads(route_stats, "/users/77/report"));
  CHECK(!on_threads(route_stats, "/users/77"));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(it_comes_back_when_it_has_behaved) {
  ab_route_stats *route_stats = make();
  ask(route_stats, "/a", 20, 90 * MS);
  /* Between half of the threshold and the threshold nothing moves. */
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/a", 1000, 26 * MS));
  /* 122 more until no more than 6 of the last 128 are above the half, and 99 after that. */
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/a", 121 + 99, 25 * MS));
  CHECK(on_threads(route_stats, "/a"));
  CHECK_INT(AB_ROUTE_TO_FIBERS, ask(route_stats, "/a", 1, 25 * MS));
  CHECK(!on_threads(route_stats, "/a"));
  ab_route_totals stats = ab_route_stats_get_totals(route_stats);
  CHECK_INT(1, stats.promoted);
  CHECK_INT(1, stats.demoted);
  ab_route_stats_fini(route_stats);
}

/* How many requests that behave it takes to come back. */
static unsigned time_away(ab_route_stats *route_stats, const char *text) {
  unsigned count = 0;
  while (on_threads(route_stats, text) && count < 100000) {
    ask(route_stats, text, 1, MS);
    count++;
  }
  return count;
}

CHECK_CASE(relapses_take_longer) {
  ab_route_stats *route_stats = make();
  static const unsigned times[] = {100, 200, 400, 800, 1600, 3200, 6400, 6400, 6400};
  for (size_t i = 0; i < AB_ARRAY_LEN(times); i++) {
    ask(route_stats, "/a", 20, 90 * MS);
    CHECK_INT(times[i], time_away(route_stats, "/a"));
  }
  /* Who stays good for long is forgiven. */
  ask(route_stats, "/a", 64000, MS);
  ask(route_stats, "/a", 7, 90 * MS);
  CHECK_INT(100, time_away(route_stats, "/a"));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(late_ones_do_not_count) {
  ab_route_stats *route_stats = make();
  ab_route route = path(route_stats, "/a");
  ask(route_stats, "/a", 20, 90 * MS);
  /* They began on fibers, before the move. */
  for (unsigned i = 0; i < 500; i++) ab_route_stats_note(route_stats, route, false, MS);
  CHECK(ab_route_stats_on_threads(route_stats, route));
  CHECK_INT(100, time_away(route_stats, "/a"));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(patterns_are_routes) {
  const ab_path_rule rules[] = {{view("/x/*"), 0}, {view("/y/*"), 0}};
  ab_route_stats *route_stats = ab_route_stats_init(&ab_mem_libc, &options, rules, 2);
  ab_route x = path(route_stats, "/x/1"), y = path(route_stats, "/y/2/z");
  CHECK(y.nth != x.nth && y.nth == path(route_stats, "/y/3").nth);
  for (unsigned i = 0; i < 20; i++) ab_route_stats_note(route_stats, y, false, 90 * MS);
  CHECK(!ab_route_stats_on_threads(route_stats, x));
  CHECK(ab_route_stats_on_threads(route_stats, y));
  ab_route_info info;
  size_t nth = 0;
  CHECK(ab_route_stats_next_promoted(route_stats, &nth, &info));
  CHECK_BYTES("/y/*", info.name.ptr, info.name.len);
  CHECK(!ab_route_stats_next_promoted(route_stats, &nth, &info));
  ab_route_stats_fini(route_stats);
}

static void flood(ab_route_stats *route_stats, unsigned from, unsigned count, ab_nsec time) {
  for (unsigned i = from; i < from + count; i++) {
    char text[16];
    unsigned n = i;
    size_t len = 0;
    text[len++] = '/';
    for (; n > 0; n /= 26) text[len++] = (char)('a' + n % 26);
    text[len] = 0;
    ask(route_stats, text, 1, time);
  }
}

CHECK_CASE(who_peeks_changes_nothing) {
  const ab_path_rule rules[] = {{view("/x/*"), 0}, {view("/y/*"), 0}};
  ab_route_stats *route_stats = ab_route_stats_init(&ab_mem_libc, &options, rules, 2);
  CHECK(!ab_route_stats_peek(route_stats, view("/a/1")));
  ask(route_stats, "/a/1", 20, 90 * MS);
  CHECK(ab_route_stats_peek(route_stats, view("/a/2")));
  CHECK(!ab_route_stats_peek(route_stats, view("/b")));
  ask(route_stats, "/y/1", 20, 90 * MS);
  CHECK(!ab_route_stats_peek(route_stats, view("/x/2")));
  CHECK(ab_route_stats_peek(route_stats, view("/y/2")));
  /* Without places left a newcomer is one of all others. */
  for (unsigned i = 0; i < 100000; i++) ab_route_stats_peek(route_stats, view("/zzz"));
  flood(route_stats, 1, 10000, 90 * MS);
  CHECK(ab_route_stats_peek(route_stats, view("/who")));
  CHECK(ab_route_stats_peek(route_stats, view("/a/3")));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(no_route_is_none) {
  ab_route_stats *route_stats = make();
  CHECK(!ab_route_stats_on_threads(route_stats, (ab_route){0}));
  CHECK_INT(AB_ROUTE_STAYS, ab_route_stats_note(route_stats, (ab_route){0}, false, 90 * MS));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(moves_are_told_in_order) {
  ab_route_stats *route_stats = make();
  ab_route_info info;
  CHECK(!ab_route_stats_has_moves(route_stats));
  CHECK(!ab_route_stats_next_move(route_stats, &info));
  ask(route_stats, "/a/1", 20, 90 * MS);
  time_away(route_stats, "/a/1");
  CHECK(ab_route_stats_has_moves(route_stats));
  CHECK(ab_route_stats_next_move(route_stats, &info));
  CHECK_BYTES("/a/*", info.name.ptr, info.name.len);
  CHECK_INT(AB_ROUTE_TO_THREADS, info.move);
  CHECK_INT(90 * MS, info.p95);
  CHECK_INT(20, info.count);
  CHECK(ab_route_stats_next_move(route_stats, &info));
  CHECK_INT(AB_ROUTE_TO_FIBERS, info.move);
  CHECK_INT(MS, info.p95);
  CHECK(!ab_route_stats_next_move(route_stats, &info));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(of_many_moves_the_last_are_told) {
  ab_route_stats *route_stats = make();
  char text[16];
  for (char c = 'a'; c <= 'z'; c++) {
    snprintf(text, sizeof(text), "/%c", c);
    ask(route_stats, text, 20, 90 * MS);
    ask(route_stats, text, 100, MS);
  }
  ab_route_info info;
  unsigned count = 0;
  while (ab_route_stats_next_move(route_stats, &info)) {
    if (count == 0) CHECK_BYTES("/k", info.name.ptr, info.name.len);
    count++;
  }
  CHECK_INT(32, count);
  CHECK_INT(26, ab_route_stats_get_totals(route_stats).promoted);
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(a_flood_of_paths_does_not_drive_out_who_is_used) {
  ab_route_stats *route_stats = make();
  ask(route_stats, "/slow/page", 20, 90 * MS);
  for (unsigned i = 0; i < 200; i++) {
    flood(route_stats, i * 50 + 1, 50, MS);
    CHECK(on_threads(route_stats, "/slow/page"));
  }
  CHECK_INT(1, ab_route_stats_get_totals(route_stats).promoted);
  CHECK_INT(0, ab_route_stats_get_totals(route_stats).demoted);
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(who_is_not_used_gives_way) {
  ab_route_stats *route_stats = make();
  ask(route_stats, "/slow/page", 20, 90 * MS);
  flood(route_stats, 1, 2000000, MS);
  CHECK(!on_threads(route_stats, "/slow/page"));
  ab_route_info info;
  CHECK(ab_route_stats_next_move(route_stats, &info));
  CHECK(ab_route_stats_next_move(route_stats, &info));
  CHECK_INT(AB_ROUTE_FORGOTTEN, info.move);
  CHECK_BYTES("/slow/page", info.name.ptr, info.name.len);
  CHECK_INT(1, ab_route_stats_get_totals(route_stats).demoted);
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(an_ended_request_of_a_forgotten_route_is_nobodys) {
  ab_route_stats *route_stats = make();
  ab_route old = path(route_stats, "/old");
  flood(route_stats, 1, 100000, MS);
  CHECK_INT(AB_ROUTE_STAYS, ab_route_stats_note(route_stats, old, false, 900 * MS));
  CHECK(!ab_route_stats_on_threads(route_stats, old));
  ab_route_stats_fini(route_stats);
}

/* Without places of their own they are one route, which moves like any other. */
CHECK_CASE(who_finds_no_place_shares_one) {
  ab_route_stats *route_stats = make();
  flood(route_stats, 1, 10000, 90 * MS);
  ab_route_info info;
  size_t nth = 0, promoted = 0;
  bool others = false;
  while (ab_route_stats_next_promoted(route_stats, &nth, &info)) {
    promoted++;
    if (info.name.len == 0) others = true;
  }
  CHECK(others);
  CHECK_INT(1, promoted); /* none of the others came twice */
  ab_route_stats_fini(route_stats);
}

/* --- what they cost --- */

static void charge(ab_route_stats *route_stats, const char *text, unsigned count, ab_nsec time) {
  for (unsigned i = 0; i < count; i++)
    ab_route_stats_charge(route_stats, path(route_stats, text), time);
}

static unsigned level(ab_route_stats *route_stats, const char *text) {
  ab_route route = {0};
  return ab_route_stats_weigh(route_stats, &route, view(text)).level;
}

CHECK_CASE(the_first_request_says_what_a_route_costs) {
  ab_route_stats *route_stats = make();
  CHECK(!ab_route_stats_weighs(route_stats));
  uint32_t before = ab_route_stats_changes(route_stats);
  charge(route_stats, "/page", 1, 20 * MS);
  CHECK(ab_route_stats_weighs(route_stats));
  CHECK(ab_route_stats_changes(route_stats) != before);
  CHECK_INT(1, level(route_stats, "/page"));
  charge(route_stats, "/slow", 1, 100 * MS);
  CHECK_INT(2, level(route_stats, "/slow"));
  charge(route_stats, "/hog", 1, 2000 * MS);
  CHECK_INT(3, level(route_stats, "/hog"));
  charge(route_stats, "/light", 1, MS);
  CHECK_INT(0, level(route_stats, "/light"));
  ab_route_stats_fini(route_stats);
}

/* One that had to load code is soon what it is; one slow request does not make a route heavy. */
CHECK_CASE(a_cost_rises_slowly_and_falls_fast) {
  ab_route_stats *route_stats = make();
  charge(route_stats, "/a", 1, 30 * MS);
  charge(route_stats, "/a", 3, 0);
  CHECK_INT(1, level(route_stats, "/a"));
  charge(route_stats, "/a", 1, 0);
  CHECK_INT(0, level(route_stats, "/a"));
  CHECK(!ab_route_stats_weighs(route_stats));
  charge(route_stats, "/a", 20, MS);
  charge(route_stats, "/a", 1, 18 * MS);
  CHECK_INT(0, level(route_stats, "/a"));
  charge(route_stats, "/a", 1, 18 * MS);
  CHECK_INT(1, level(route_stats, "/a"));
  ab_route_stats_fini(route_stats);
}

/* The margin keeps requests of one route in one level: it is at two thirds of each limit. */
CHECK_CASE(a_level_begins_below_its_limit) {
  ab_route_stats *route_stats = make();
  charge(route_stats, "/below", 1, 3333333);
  CHECK_INT(0, level(route_stats, "/below"));
  charge(route_stats, "/above", 1, 3333334);
  CHECK_INT(1, level(route_stats, "/above"));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(an_unknown_route_costs_what_the_median_does) {
  ab_route_stats *route_stats = make();
  CHECK_INT(0, level(route_stats, "/a"));
  charge(route_stats, "/page", 1, 20 * MS);
  CHECK_INT(1, level(route_stats, "/b"));
  CHECK_INT(1, ab_route_stats_weigh(route_stats, &(ab_route){0}, view("")).level);
  for (unsigned i = 0; i < 200; i++) {
    charge(route_stats, "/page", 1, 20 * MS);
    charge(route_stats, "/light", 2, MS);
  }
  CHECK_INT(0, level(route_stats, "/c"));
  CHECK_INT(1, level(route_stats, "/page"));
  ab_route_stats_fini(route_stats);
}

/* Requests are measured from the first heavy one on: those before it count, too. */
CHECK_CASE(light_requests_that_were_not_measured_count) {
  ab_route_stats *route_stats = make();
  ab_route_stats_pass(route_stats, 10);
  charge(route_stats, "/hog", 1, 2000 * MS);
  CHECK_INT(0, level(route_stats, "/light"));
  CHECK_INT(3, level(route_stats, "/hog"));
  ab_route_stats_fini(route_stats);
}

/* Of light requests one in sixteen is enough, and stands for the others in the median. */
CHECK_CASE(light_routes_that_are_known_are_sampled) {
  ab_route_stats *route_stats = make();
  charge(route_stats, "/page", 1, 20 * MS);
  charge(route_stats, "/light", 1, MS);
  unsigned measured = 0, heavy = 0, unknown = 0;
  for (unsigned i = 0; i < 160; i++) {
    measured += ab_route_stats_weigh(route_stats, &(ab_route){0}, view("/light")).measured;
    heavy += ab_route_stats_weigh(route_stats, &(ab_route){0}, view("/page")).measured;
    unknown += ab_route_stats_weigh(route_stats, &(ab_route){0}, view("/who")).measured;
  }
  CHECK_INT(10, measured);
  CHECK_INT(160, heavy);
  CHECK_INT(160, unknown);
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(a_sample_stands_for_the_others) {
  ab_route_stats_options bare = {.seed = 42};
  ab_route_stats *route_stats = ab_route_stats_init(&ab_mem_libc, &bare, NULL, 0);
  charge(route_stats, "/light", 1, MS);
  for (unsigned i = 0; i < 50; i++) { /* eight light ones to a page */
    charge(route_stats, "/page", 2, 20 * MS);
    charge(route_stats, "/light", 1, MS);
  }
  CHECK_INT(0, level(route_stats, "/unknown"));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(a_heavy_route_that_nobody_asks_for_grows_lighter) {
  ab_route_stats *route_stats = make();
  charge(route_stats, "/page", 1, 20 * MS);
  for (unsigned i = 0; i < 179; i++) ab_route_stats_age(route_stats);
  CHECK(ab_route_stats_weighs(route_stats));
  charge(route_stats, "/page", 1, 20 * MS);
  CHECK_INT(1, level(route_stats, "/page"));
  for (unsigned i = 0; i < 119; i++) ab_route_stats_age(route_stats);
  CHECK(ab_route_stats_weighs(route_stats));
  ab_route_stats_age(route_stats);
  CHECK(!ab_route_stats_weighs(route_stats));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(a_forgotten_route_weighs_nothing) {
  ab_route_stats *route_stats = make();
  charge(route_stats, "/page", 1, 20 * MS);
  flood(route_stats, 1, 100000, MS);
  CHECK(!ab_route_stats_weighs(route_stats));
  ab_route_stats_fini(route_stats);
}

/* Of what requests above the lowest level have computed, the largest shares are told. */
CHECK_CASE(a_load_is_taken_once) {
  ab_route_stats *route_stats = make();
  charge(route_stats, "/a", 2, 20 * MS);
  charge(route_stats, "/b", 1, 100 * MS);
  charge(route_stats, "/c", 1, 10 * MS);
  charge(route_stats, "/d", 1, 30 * MS);
  charge(route_stats, "/light", 50, MS);
  ab_route_load load;
  ab_route_stats_take_load(route_stats, &load);
  CHECK_INT(5, load.requests);
  CHECK_INT(180 * MS, load.computed);
  static const char *const names[] = {"/b", "/a", "/d"};
  static const ab_nsec times[] = {100 * MS, 40 * MS, 30 * MS};
  for (size_t i = 0; i < AB_ROUTE_SHARES; i++) {
    CHECK_BYTES(names[i], load.shares[i].route.name.ptr, load.shares[i].route.name.len);
    CHECK_INT(times[i], load.shares[i].computed);
  }
  ab_route_stats_take_load(route_stats, &load);
  CHECK_INT(0, load.requests);
  CHECK_INT(0, load.shares[0].computed);
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(without_a_threshold_no_route_moves) {
  ab_route_stats_options bare = {.seed = 42};
  ab_route_stats *route_stats = ab_route_stats_init(&ab_mem_libc, &bare, NULL, 0);
  CHECK_INT(AB_ROUTE_STAYS, ask(route_stats, "/slow", 200, 900 * MS));
  ab_route_stats_fini(route_stats);
}

CHECK_CASE(memory_may_fail) {
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK(!ab_route_stats_init(&mem.mem, &options, NULL, 0));
  check_mem_init(&mem, 0);
  ab_route_stats *route_stats = ab_route_stats_init(&mem.mem, &options, NULL, 0);
  CHECK(route_stats != NULL);
  CHECK(!ab_route_stats_init(&mem.mem, &options, NULL, SIZE_MAX / 8));
  ab_route_stats_fini(route_stats);
  ab_route_stats_fini(NULL);
  CHECK_INT(0, mem.live);
}

CHECK_MAIN()
