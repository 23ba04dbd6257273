/* Structures of one size: taken, given back, taken again, and none when memory is short. */
#include "base/slab.h"

#include "check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

typedef struct thing {
  void *chain;
  unsigned number;
} thing;

static void sum_up(void *ctx, void *one) {
  *(unsigned *)ctx += ((thing *)one)->number;
}

#define MANY 200 /* more than one slab has */

CHECK_CASE(all_are_different_and_behind_the_chain_zero) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_slab_pool pool;
  ab_slab_pool_init(&pool, &mem.mem, sizeof(thing));
  thing *things[MANY];
  for (unsigned i = 0; i < MANY; i++) {
    things[i] = ab_slab_take(&pool);
    CHECK_INT(0, things[i]->number);
    things[i]->number = i + 1;
  }
  for (unsigned i = 0; i < MANY; i++) CHECK_INT(i + 1, things[i]->number);
  CHECK(mem.calls < MANY / 10);
  ab_slab_pool_fini(&pool);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(what_was_given_back_last_is_taken_first) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_slab_pool pool;
  ab_slab_pool_init(&pool, &mem.mem, sizeof(thing));
  thing *first = ab_slab_take(&pool), *second = ab_slab_take(&pool);
  first->number = 1;
  second->number = 2;
  size_t calls = mem.calls;
  ab_slab_give(&pool, first);
  ab_slab_give(&pool, second);
  CHECK(ab_slab_take(&pool) == second);
  CHECK(ab_slab_take(&pool) == first);
  CHECK_INT(1, first->number); /* as it was left */
  CHECK_INT(2, second->number);
  CHECK_INT(calls, mem.calls);
  ab_slab_pool_fini(&pool);
}

CHECK_CASE(what_is_free_is_poisoned) {
#ifdef __SANITIZE_ADDRESS__
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_slab_pool pool;
  ab_slab_pool_init(&pool, &mem.mem, sizeof(thing));
  thing *first = ab_slab_take(&pool);
  CHECK(!__asan_region_is_poisoned(first, sizeof *first));
  CHECK(__asan_address_is_poisoned(&first[1].number)); /* the next one, not taken yet */
  ab_slab_give(&pool, first);
  CHECK(__asan_address_is_poisoned(&first->number));
  unsigned sum = 0;
  ab_slab_each(&pool, sum_up, &sum);
  CHECK(__asan_address_is_poisoned(&first->number));
  CHECK(ab_slab_take(&pool) == first);
  CHECK(!__asan_region_is_poisoned(first, sizeof *first));
  ab_slab_pool_fini(&pool);
#else
  CHECK_LEAVE_OUT("it needs AddressSanitizer");
#endif
}

CHECK_CASE(without_memory_there_is_none) {
  check_mem mem;
  check_mem_init(&mem, 1);
  ab_slab_pool pool;
  ab_slab_pool_init(&pool, &mem.mem, sizeof(thing));
  CHECK(!ab_slab_take(&pool));
  CHECK(ab_slab_take(&pool)); /* the next time there is some */
  ab_slab_pool_fini(&pool);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(each_is_visited_free_ones_too) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_slab_pool pool;
  ab_slab_pool_init(&pool, &mem.mem, sizeof(thing));
  unsigned sum = 0;
  ab_slab_each(&pool, sum_up, &sum);
  CHECK_INT(0, sum);
  thing *last = NULL;
  for (unsigned i = 1; i <= MANY; i++) {
    last = ab_slab_take(&pool);
    last->number = i;
  }
  ab_slab_give(&pool, last);
  ab_slab_each(&pool, sum_up, &sum);
  CHECK_INT(MANY * (MANY + 1) / 2, sum);
  ab_slab_pool_fini(&pool);
}

CHECK_MAIN()
