/* The app's pools in a slot: names, what is too much, what stays after a process has ended, and
 * their sums over the slots. */
#include "check.h"
#include "page/tally.h"

static const ab_page_time now = {1000, 2000};

static ab_page *page_of(uint32_t slots) {
  const ab_page_options options = {.slots = slots, .rows = 4, .queued = 4};
  ab_page *page = ab_page_create(&ab_mem_libc, &options, now);
  CHECK(page);
  for (uint32_t i = 0; i < slots; i++) {
    CHECK_INT(AB_OK, ab_page_claim(page, i, 0, now));
    ab_page_set_state(page, i, AB_PAGE_SERVING);
  }
  return page;
}

static ab_page_pool *pool_in(ab_page *page, uint32_t slot, const char *name) {
  ab_page_parts parts = ab_page_parts_of(page, slot);
  return ab_page_pool_find(parts.pools, parts.pool_count, &parts.slot->app.pools,
                           (ab_view){name, strlen(name)});
}

static void check_out(ab_page_pool *pool, ab_nsec time) {
  ab_page_pool_enter(pool);
  ab_page_pool_leave(pool);
  ab_cells_add(&pool->waits, time);
}

static const ab_tally_pool *sum_of(const ab_tally *tally, const char *name) {
  for (uint32_t i = 0; i < tally->pool_count; i++) {
    const ab_tally_pool *pool = &tally->pools[i];
    if (pool->name_len == strlen(name) && memcmp(pool->name, name, pool->name_len) == 0)
      return pool;
  }
  return NULL;
}

CHECK_CASE(a_name_is_found_again) {
  ab_page *page = page_of(1);
  ab_page_parts parts = ab_page_parts_of(page, 0);
  CHECK_INT(AB_HAS(MEMFD) ? AB_PAGE_POOLS : 5, parts.pool_count);
  CHECK_INT(0, ab_page_pools_used(&parts.slot->app.pools, parts.pool_count));
  ab_page_pool *one = pool_in(page, 0, "one"), *two = pool_in(page, 0, "two");
  CHECK(one == &parts.pools[0] && two == &parts.pools[1]);
  CHECK(pool_in(page, 0, "one") == one && pool_in(page, 0, "two") == two);
  CHECK(pool_in(page, 0, "on") != one && pool_in(page, 0, "") == &parts.pools[3]);
  CHECK(pool_in(page, 0, "") == &parts.pools[3]);
  CHECK_INT(4, ab_page_pools_used(&parts.slot->app.pools, parts.pool_count));
  ab_page_drop(page);
}

/* The last place of the area is a name's, too; what comes after it has none. */
CHECK_CASE(there_are_so_many_names) {
  ab_page *page = page_of(1);
  ab_page_parts parts = ab_page_parts_of(page, 0);
  char name[16];
  for (uint32_t i = 0; i < parts.pool_count; i++) {
    snprintf(name, sizeof(name), "%u", i);
    CHECK(pool_in(page, 0, name) == &parts.pools[i]);
  }
  CHECK(!pool_in(page, 0, "one too many"));
  CHECK(pool_in(page, 0, name) == &parts.pools[parts.pool_count - 1]);
  /* Whatever stands there. */
  AB_PUT(parts.slot->app.pools, UINT32_MAX);
  CHECK_INT(parts.pool_count, ab_page_pools_used(&parts.slot->app.pools, parts.pool_count));
  CHECK(!pool_in(page, 0, "one too many"));
  CHECK(!ab_page_pool_find(parts.pools, 0, &parts.slot->app.pools, (ab_view){"a", 1}));
  ab_page_drop(page);
}

CHECK_CASE(a_long_name_is_cut_off) {
  ab_page *page = page_of(1);
  char text[200], name[AB_PAGE_POOL_NAME];
  memset(text, 'a', sizeof(text));
  text[sizeof(text) - 1] = '\0';
  ab_page_pool *pool = pool_in(page, 0, text);
  CHECK_INT(AB_PAGE_POOL_NAME, ab_page_pool_name(pool, name));
  CHECK(memcmp(name, text, sizeof(name)) == 0);
  text[150] = 'b';
  CHECK(pool_in(page, 0, text) == pool);
  /* A character of three bytes, of which one has no room. */
  memcpy(text + 62, "\xe2\x82\xac", 3);
  pool = pool_in(page, 0, text);
  CHECK_INT(62, ab_page_pool_name(pool, name));
  /* What is no UTF-8 is cut off anywhere. */
  memset(text, 0x80, sizeof(text) - 1);
  pool = pool_in(page, 0, text);
  CHECK_INT(60, ab_page_pool_name(pool, name));
  AB_PUT(pool->name_len, UINT32_MAX);
  CHECK_INT(AB_PAGE_POOL_NAME, ab_page_pool_name(pool, name));
  ab_page_drop(page);
}

CHECK_CASE(what_it_counts_stays_and_what_it_has_does_not) {
  ab_page *page = page_of(1);
  ab_page_pool *pool = pool_in(page, 0, "one");
  check_out(pool, 5);
  AB_ADD(pool->timeouts, 1);
  ab_page_pool_enter(pool);
  ab_page_pool_show(pool, 5, 3, 1);
  CHECK_INT(1, pool->pending);
  ab_page_set_state(page, 0, AB_PAGE_ENDED);
  CHECK_INT(AB_OK, ab_page_claim(page, 0, 1, now));
  CHECK(pool_in(page, 0, "one") == pool);
  CHECK_INT(0, pool->pending + pool->most + pool->used + pool->idle);
  CHECK_INT(1, pool->timeouts);
  CHECK_INT(1, ab_cells_count(&pool->waits));
  /* Of before that: it ends after all. */
  ab_page_pool_leave(pool);
  CHECK_INT(0, pool->pending);
  ab_page_drop(page);
}

CHECK_CASE(pools_of_one_name_are_added) {
  ab_page *page = page_of(3);
  ab_tally tally;
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(0, tally.pool_count);
  pool_in(page, 1, "other");
  for (uint32_t slot = 0; slot < 2; slot++) {
    ab_page_pool *pool = pool_in(page, slot, "one");
    check_out(pool, 10 + slot);
    AB_ADD(pool->timeouts, 2);
    ab_page_pool_enter(pool);
    ab_page_pool_show(pool, 5, 3, 1);
  }
  AB_ADD(ab_page_slot_of(page, 2)->app.pools_dropped, 7);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(2, tally.pool_count);
  CHECK_INT(7, tally.totals.pools_dropped);
  const ab_tally_pool *sum = sum_of(&tally, "one");
  CHECK(sum && sum_of(&tally, "other"));
  CHECK_INT(10, sum->most);
  CHECK_INT(6, sum->used);
  CHECK_INT(2, sum->idle);
  CHECK_INT(2, sum->pending);
  CHECK_INT(4, sum->timeouts);
  CHECK_INT(21, sum->waits.sum);
  CHECK_INT(2, ab_cells_count(&sum->waits));
  /* One is no more, and nobody has its slot yet. */
  ab_page_set_state(page, 0, AB_PAGE_ENDED);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  sum = sum_of(&tally, "one");
  CHECK_INT(5, sum->most);
  CHECK_INT(1, sum->pending);
  CHECK_INT(4, sum->timeouts);
  CHECK_INT(2, ab_cells_count(&sum->waits));
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* Slots have other names each: the first ones are told, and go on to be. */
CHECK_CASE(names_beyond_the_most_are_left_out) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page = page_of(6);
  ab_tally tally;
  char name[16];
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  for (uint32_t slot = 0; slot < 6; slot++) {
    for (int i = 0; i < AB_PAGE_POOLS; i++) {
      snprintf(name, sizeof(name), "%u %d", slot, i);
      check_out(pool_in(page, slot, name), 1);
    }
  }
  for (int round = 0; round < 2; round++) {
    CHECK_INT(AB_OK, ab_tally_take(&tally, page));
    CHECK_INT(AB_TALLY_POOLS, tally.pool_count);
    CHECK(sum_of(&tally, "0 0") && sum_of(&tally, "3 15") && !sum_of(&tally, "4 0"));
    CHECK_INT(1, ab_cells_count(&sum_of(&tally, "3 15")->waits));
  }
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

CHECK_CASE(without_memory_there_is_no_sum) {
  ab_page *page = page_of(1);
  check_mem mem;
  ab_tally tally;
  pool_in(page, 0, "one");
  check_mem_init(&mem, 4);
  CHECK_INT(AB_OK, ab_tally_init(&tally, &mem.mem, 64));
  CHECK_INT(AB_ENOMEM, ab_tally_take(&tally, page));
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(1, tally.pool_count);
  ab_tally_fini(&tally);
  CHECK_INT(0, mem.live);
  ab_page_drop(page);
}

CHECK_MAIN()
