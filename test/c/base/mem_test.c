/* The allocator interface: libc's allocator behind it, and the failing one that the other tests
 * use. */
#include "base/mem.h"
#include "check.h"

CHECK_CASE(libc_allocates_grows_and_frees) {
  char *ptr = ab_alloc(&ab_mem_libc, 4);
  CHECK(ptr != NULL);
  memcpy(ptr, "abcd", 4);
  ptr = ab_realloc(&ab_mem_libc, ptr, 100000);
  CHECK(ptr != NULL);
  CHECK_BYTES("abcd", ptr, 4);
  ptr = ab_realloc(&ab_mem_libc, ptr, 2);
  CHECK_BYTES("ab", ptr, 2);
  CHECK(ab_mem_libc.realloc(ab_mem_libc.ctx, ptr, 0) == NULL);
  ab_free(&ab_mem_libc, NULL);
}

CHECK_CASE(zeroed_memory_may_be_refused) {
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK(ab_alloc_zero(&mem.mem, 16) == NULL);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(zeroed_memory_is_zero) {
  check_mem mem;
  check_mem_init(&mem, 0);
  char *dirty = ab_alloc(&mem.mem, 256);
  memset(dirty, 0xff, 256);
  ab_free(&mem.mem, dirty);
  char *ptr = ab_alloc_zero(&mem.mem, 256);
  for (int i = 0; i < 256; i++) CHECK_INT(0, ptr[i]);
  ab_free(&mem.mem, ptr);
  CHECK_INT(2, mem.calls);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(a_failed_growth_leaves_the_block) {
  check_mem mem;
  check_mem_init(&mem, 2);
  char *ptr = ab_alloc(&mem.mem, 3);
  memcpy(ptr, "abc", 3);
  CHECK(ab_realloc(&mem.mem, ptr, 1000) == NULL);
  CHECK_BYTES("abc", ptr, 3);
  CHECK_INT(1, mem.live);
  ptr = ab_realloc(&mem.mem, ptr, 1000);
  CHECK(ptr != NULL);
  CHECK_INT(1, mem.live);
  ab_free(&mem.mem, ptr);
  ab_free(&mem.mem, NULL);
  CHECK_INT(3, mem.calls);
  CHECK_INT(0, mem.live);
}

CHECK_MAIN()
