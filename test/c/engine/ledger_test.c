/* Routes: what a path's is, when they move and come back, and what a flood of them does. */
#include "engine/ledger.h"

#include "check.h"

#define MS AB_NSEC_PER_MS

static const ab_ledger_options options = {.threshold = 50 * MS, .least = 20, .seed = 42};

static ab_ledger *make(void) {
  return ab_ledger_init(&ab_mem_libc, &options, NULL, 0);
}

static ab_view view(const char *text) {
  return (ab_view){text, strlen(text)};
}

static ab_route path(ab_ledger *ledger, const char *text) {
  return ab_ledger_path(ledger, view(text));
}

/* So many requests for the path, where it is to run; returns the last move. */
static enum ab_route_move ask(ab_ledger *ledger, const char *text, unsigned count, ab_nsec time) {
  enum ab_route_move last = AB_ROUTE_STAYS;
  for (unsigned i = 0; i < count; i++) {
    ab_route route = path(ledger, text);
    enum ab_route_move move =
        ab_ledger_note(ledger, route, ab_ledger_on_threads(ledger, route), time);
    if (move != AB_ROUTE_STAYS) last = move;
  }
  return last;
}

static bool on_threads(ab_ledger *ledger, const char *text) {
  return ab_ledger_on_threads(ledger, path(ledger, text));
}

static void paths_are_alike(void) {
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
    char key[AB_LEDGER_KEY_MAX];
    size_t len = ab__ledger_key(view(table[i][0]), key);
    CHECK_OCTETS(table[i][1], key, len);
  }
}

static void the_longest_key_fits(void) {
  char text[4096], key[AB_LEDGER_KEY_MAX];
  memset(text, 'a', sizeof(text));
  for (size_t i = 0; i < sizeof(text); i += 25) text[i] = '/';
  size_t len = ab__ledger_key((ab_view){text, sizeof(text)}, key);
  CHECK_INT(1 + 4 * 25 + 1, len);
  CHECK(key[len - 1] == '*');
}

static void twenty_requests_and_two_of_them_slow(void) {
  ab_ledger *ledger = make();
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/slow", 19, 900 * MS));
  CHECK(!on_threads(ledger, "/slow"));
  CHECK_INT(AB_ROUTE_TO_THREADS, ask(ledger, "/slow", 1, MS));
  CHECK(on_threads(ledger, "/slow"));
  CHECK(!on_threads(ledger, "/fast"));

  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/one", 1, 900 * MS));
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/one", 200, 50 * MS));
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/two", 2, 900 * MS));
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/two", 17, MS));
  CHECK_INT(AB_ROUTE_TO_THREADS, ask(ledger, "/two", 1, MS));
  ab_ledger_fini(ledger);
}

static void one_that_turns_slow_later_moves_soon(void) {
  ab_ledger *ledger = make();
  ask(ledger, "/a", 10000, MS);
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/a", 6, 90 * MS));
  CHECK_INT(AB_ROUTE_TO_THREADS, ask(ledger, "/a", 1, 90 * MS));
  ab_ledger_fini(ledger);
}

static void the_same_route_by_other_ids(void) {
  ab_ledger *ledger = make();
  for (unsigned i = 0; i < 20; i++) {
    char text[32];
    snprintf(text, sizeof(text), "/users/%u/report", i);
    ask(ledger, text, 1, 90 * MS);
  }
  CHECK(on_threads(ledger, "/users/77/report"));
  CHECK(!on_threads(ledger, "/users/77"));
  ab_ledger_fini(ledger);
}

static void it_comes_back_when_it_has_behaved(void) {
  ab_ledger *ledger = make();
  ask(ledger, "/a", 20, 90 * MS);
  /* Between half of the threshold and the threshold nothing moves. */
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/a", 1000, 26 * MS));
  /* 122 more until no more than 6 of the last 128 are above the half, and 99 after that. */
  CHECK_INT(AB_ROUTE_STAYS, ask(ledger, "/a", 121 + 99, 25 * MS));
  CHECK(on_threads(ledger, "/a"));
  CHECK_INT(AB_ROUTE_TO_FIBERS, ask(ledger, "/a", 1, 25 * MS));
  CHECK(!on_threads(ledger, "/a"));
  ab_ledger_stats stats = ab_ledger_get_stats(ledger);
  CHECK_INT(1, stats.promoted);
  CHECK_INT(1, stats.demoted);
  ab_ledger_fini(ledger);
}

/* How many requests that behave it takes to come back. */
static unsigned time_away(ab_ledger *ledger, const char *text) {
  unsigned count = 0;
  while (on_threads(ledger, text) && count < 100000) {
    ask(ledger, text, 1, MS);
    count++;
  }
  return count;
}

static void relapses_take_longer(void) {
  ab_ledger *ledger = make();
  static const unsigned times[] = {100, 200, 400, 800, 1600, 3200, 6400, 6400, 6400};
  for (size_t i = 0; i < AB_ARRAY_LEN(times); i++) {
    ask(ledger, "/a", 20, 90 * MS);
    CHECK_INT(times[i], time_away(ledger, "/a"));
  }
  /* Who stays good for long is forgiven. */
  ask(ledger, "/a", 64000, MS);
  ask(ledger, "/a", 7, 90 * MS);
  CHECK_INT(100, time_away(ledger, "/a"));
  ab_ledger_fini(ledger);
}

static void late_ones_do_not_count(void) {
  ab_ledger *ledger = make();
  ab_route route = path(ledger, "/a");
  ask(ledger, "/a", 20, 90 * MS);
  /* They began on fibers, before the move. */
  for (unsigned i = 0; i < 500; i++) ab_ledger_note(ledger, route, false, MS);
  CHECK(ab_ledger_on_threads(ledger, route));
  CHECK_INT(100, time_away(ledger, "/a"));
  ab_ledger_fini(ledger);
}

static void patterns_are_routes(void) {
  const ab_path_rule rules[] = {{view("/x/*"), 0}, {view("/y/*"), 0}};
  ab_ledger *ledger = ab_ledger_init(&ab_mem_libc, &options, rules, 2);
  ab_route x = ab_ledger_rule(ledger, 0), y = ab_ledger_rule(ledger, 1);
  for (unsigned i = 0; i < 20; i++) ab_ledger_note(ledger, y, false, 90 * MS);
  CHECK(!ab_ledger_on_threads(ledger, x));
  CHECK(ab_ledger_on_threads(ledger, y));
  ab_route_info info;
  size_t nth = 0;
  CHECK(ab_ledger_next_promoted(ledger, &nth, &info));
  CHECK_OCTETS("/y/*", info.name.ptr, info.name.len);
  CHECK(!ab_ledger_next_promoted(ledger, &nth, &info));
  ab_ledger_fini(ledger);
}

static void flood(ab_ledger *ledger, unsigned from, unsigned count, ab_nsec time) {
  for (unsigned i = from; i < from + count; i++) {
    char text[16];
    unsigned n = i;
    size_t len = 0;
    text[len++] = '/';
    for (; n > 0; n /= 26) text[len++] = (char)('a' + n % 26);
    text[len] = 0;
    ask(ledger, text, 1, time);
  }
}

static void who_peeks_changes_nothing(void) {
  const ab_path_rule rules[] = {{view("/x/*"), 0}, {view("/y/*"), 0}};
  ab_ledger *ledger = ab_ledger_init(&ab_mem_libc, &options, rules, 2);
  CHECK(!ab_ledger_peek(ledger, view("/a/1")));
  ask(ledger, "/a/1", 20, 90 * MS);
  CHECK(ab_ledger_peek(ledger, view("/a/2")));
  CHECK(!ab_ledger_peek(ledger, view("/b")));
  ab_route y = ab_ledger_rule(ledger, 1);
  for (unsigned i = 0; i < 20; i++) ab_ledger_note(ledger, y, false, 90 * MS);
  CHECK(!ab_ledger_peek_rule(ledger, 0));
  CHECK(ab_ledger_peek_rule(ledger, 1));
  /* Without places left a newcomer is one of all others. */
  for (unsigned i = 0; i < 100000; i++) ab_ledger_peek(ledger, view("/zzz"));
  flood(ledger, 1, 10000, 90 * MS);
  CHECK(ab_ledger_peek(ledger, view("/who")));
  CHECK(ab_ledger_peek(ledger, view("/a/3")));
  ab_ledger_fini(ledger);
}

static void no_route_is_none(void) {
  ab_ledger *ledger = make();
  CHECK(!ab_ledger_on_threads(ledger, (ab_route){0}));
  CHECK_INT(AB_ROUTE_STAYS, ab_ledger_note(ledger, (ab_route){0}, false, 90 * MS));
  ab_ledger_fini(ledger);
}

static void moves_are_told_in_order(void) {
  ab_ledger *ledger = make();
  ab_route_info info;
  CHECK(!ab_ledger_has_moves(ledger));
  CHECK(!ab_ledger_next_move(ledger, &info));
  ask(ledger, "/a/1", 20, 90 * MS);
  time_away(ledger, "/a/1");
  CHECK(ab_ledger_has_moves(ledger));
  CHECK(ab_ledger_next_move(ledger, &info));
  CHECK_OCTETS("/a/*", info.name.ptr, info.name.len);
  CHECK_INT(AB_ROUTE_TO_THREADS, info.move);
  CHECK_INT(90 * MS, info.p95);
  CHECK_INT(20, info.count);
  CHECK(ab_ledger_next_move(ledger, &info));
  CHECK_INT(AB_ROUTE_TO_FIBERS, info.move);
  CHECK_INT(MS, info.p95);
  CHECK(!ab_ledger_next_move(ledger, &info));
  ab_ledger_fini(ledger);
}

static void of_many_moves_the_last_are_told(void) {
  ab_ledger *ledger = make();
  char text[16];
  for (char c = 'a'; c <= 'z'; c++) {
    snprintf(text, sizeof(text), "/%c", c);
    ask(ledger, text, 20, 90 * MS);
    ask(ledger, text, 100, MS);
  }
  ab_route_info info;
  unsigned count = 0;
  while (ab_ledger_next_move(ledger, &info)) {
    if (count == 0) CHECK_OCTETS("/k", info.name.ptr, info.name.len);
    count++;
  }
  CHECK_INT(32, count);
  CHECK_INT(26, ab_ledger_get_stats(ledger).promoted);
  ab_ledger_fini(ledger);
}

static void a_flood_of_paths_does_not_drive_out_who_is_used(void) {
  ab_ledger *ledger = make();
  ask(ledger, "/slow/page", 20, 90 * MS);
  for (unsigned i = 0; i < 200; i++) {
    flood(ledger, i * 50 + 1, 50, MS);
    CHECK(on_threads(ledger, "/slow/page"));
  }
  CHECK_INT(1, ab_ledger_get_stats(ledger).promoted);
  CHECK_INT(0, ab_ledger_get_stats(ledger).demoted);
  ab_ledger_fini(ledger);
}

static void who_is_not_used_gives_way(void) {
  ab_ledger *ledger = make();
  ask(ledger, "/slow/page", 20, 90 * MS);
  flood(ledger, 1, 2000000, MS);
  CHECK(!on_threads(ledger, "/slow/page"));
  ab_route_info info;
  CHECK(ab_ledger_next_move(ledger, &info));
  CHECK(ab_ledger_next_move(ledger, &info));
  CHECK_INT(AB_ROUTE_FORGOTTEN, info.move);
  CHECK_OCTETS("/slow/page", info.name.ptr, info.name.len);
  CHECK_INT(1, ab_ledger_get_stats(ledger).demoted);
  ab_ledger_fini(ledger);
}

static void an_ended_request_of_a_forgotten_route_is_nobodys(void) {
  ab_ledger *ledger = make();
  ab_route old = path(ledger, "/old");
  flood(ledger, 1, 100000, MS);
  CHECK_INT(AB_ROUTE_STAYS, ab_ledger_note(ledger, old, false, 900 * MS));
  CHECK(!ab_ledger_on_threads(ledger, old));
  ab_ledger_fini(ledger);
}

/* Without places of their own they are one route, which moves like any other. */
static void who_finds_no_place_shares_one(void) {
  ab_ledger *ledger = make();
  flood(ledger, 1, 10000, 90 * MS);
  ab_route_info info;
  size_t nth = 0, promoted = 0;
  bool others = false;
  while (ab_ledger_next_promoted(ledger, &nth, &info)) {
    promoted++;
    if (info.name.len == 0) others = true;
  }
  CHECK(others);
  CHECK_INT(1, promoted); /* none of the others came twice */
  ab_ledger_fini(ledger);
}

static void memory_may_fail(void) {
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK(!ab_ledger_init(&mem.mem, &options, NULL, 0));
  check_mem_init(&mem, 0);
  ab_ledger *ledger = ab_ledger_init(&mem.mem, &options, NULL, 0);
  CHECK(ledger != NULL);
  CHECK(!ab_ledger_init(&mem.mem, &options, NULL, SIZE_MAX / 8));
  ab_ledger_fini(ledger);
  ab_ledger_fini(NULL);
  CHECK_INT(0, mem.live);
}

CHECK_MAIN(CHECK_CASE(paths_are_alike), CHECK_CASE(the_longest_key_fits),
           CHECK_CASE(twenty_requests_and_two_of_them_slow),
           CHECK_CASE(one_that_turns_slow_later_moves_soon),
           CHECK_CASE(the_same_route_by_other_ids), CHECK_CASE(it_comes_back_when_it_has_behaved),
           CHECK_CASE(relapses_take_longer), CHECK_CASE(late_ones_do_not_count),
           CHECK_CASE(patterns_are_routes), CHECK_CASE(who_peeks_changes_nothing),
           CHECK_CASE(no_route_is_none), CHECK_CASE(moves_are_told_in_order),
           CHECK_CASE(of_many_moves_the_last_are_told),
           CHECK_CASE(a_flood_of_paths_does_not_drive_out_who_is_used),
           CHECK_CASE(who_is_not_used_gives_way),
           CHECK_CASE(an_ended_request_of_a_forgotten_route_is_nobodys),
           CHECK_CASE(who_finds_no_place_shares_one), CHECK_CASE(memory_may_fail))
