#include "page/pools.h"

uint32_t ab_page_pools_used(const uint32_t *used, uint32_t count) {
  /* Acquire: the names up to there are seen. Partner: the release in take_up. */
  uint32_t names = __atomic_load_n(used, __ATOMIC_ACQUIRE);
  return names < count ? names : count;
}

/* The name is there before its number is: a process that is killed in here has taken up nothing.
 * The next one goes on with the record, in which nothing was counted. */
static ab_page_pool *pools_take_up(ab_page_pool *pools, uint32_t number, uint32_t *used,
                                   ab_view name) {
  ab_page_pool *pool = &pools[number];
  char words[AB_PAGE_POOL_NAME] = {0};
  memcpy(words, name.ptr, name.len);
  ab_words_put(pool->name, words, sizeof(words));
  AB_PUT(pool->name_len, (uint32_t)name.len);
  /* Release: partner is ab_page_pools_used. */
  __atomic_store_n(used, number + 1, __ATOMIC_RELEASE);
  return pool;
}

/* Bytes that continue a character of UTF-8 do not come first in what is cut off. */
static size_t cut_off(ab_view name) {
  size_t len = AB_PAGE_POOL_NAME;
  if (name.len <= len) return name.len;
  while (len > AB_PAGE_POOL_NAME - 4 && ((unsigned char)name.ptr[len] & 0xc0) == 0x80) len--;
  return len;
}

ab_page_pool *ab_page_pool_find(ab_page_pool *pools, uint32_t count, uint32_t *used, ab_view name) {
  uint32_t there = ab_page_pools_used(used, count);
  name.len = cut_off(name);
  for (uint32_t i = 0; i < there; i++) {
    ab_page_pool *pool = &pools[i];
    if (pool->name_len == name.len && memcmp(pool->name, name.ptr, name.len) == 0) return pool;
  }
  return there < count ? pools_take_up(pools, there, used, name) : NULL;
}

void ab__page_pool_forget(ab_page_pool *pool) {
  AB_PUT(pool->pending, 0);
  ab_page_pool_show(pool, 0, 0, 0);
}

uint32_t ab_page_pool_name(const ab_page_pool *pool, char name[AB_PAGE_POOL_NAME]) {
  ab_words_get(name, pool->name, AB_PAGE_POOL_NAME);
  uint32_t len = AB_GET(pool->name_len);
  return len < AB_PAGE_POOL_NAME ? len : AB_PAGE_POOL_NAME;
}
