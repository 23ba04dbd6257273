#include "os/fork_page.h"

#ifdef AB_HAS_WIPE_ON_FORK
#include <sys/mman.h>

volatile uint32_t *ab_fork_page_init(void) {
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  uint32_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  if (madvise(page, size, MADV_WIPEONFORK) == 0) {
    *page = 1;
    return page;
  }
  munmap(page, size);
  return NULL;
}

void ab_fork_page_fini(volatile uint32_t *page) {
  if (page) munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
}
#else
volatile uint32_t *ab_fork_page_init(void) {
  return NULL;
}

void ab_fork_page_fini(volatile uint32_t *page AB_UNUSED) {}
#endif
