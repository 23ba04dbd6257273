/* The watermark costs no memory: a page never written reads as zero without existing. 512 bytes
 * in four places are checked, because a frame with a large array may jump over some. */
#include "rb/pool/rb_stack.h"

#include <ruby.h>

#include <string.h>

#include "os/process.h"

#define WATERMARK ((size_t)64 << 10)

/* What an idle fiber has on its stack below `base`, with a generous margin. */
#define IN_USE ((size_t)16 << 10)

/* What a switch has on the stack, with a margin: 256 were enough on Ruby 3.1 to 3.4. */
#define SWITCH ((size_t)1024)

/* Between `base` and the stack's end: the frames above it, and the guard page. */
#define RESERVE ((size_t)32 << 10)

#define PAGE    ((size_t)4096)
#define WINDOWS 4
#define WINDOW  8 /* pairs of words */
#define STRIDE  (PAGE / WINDOWS)

/* It is checked after every job. */
typedef uintptr_t words __attribute__((vector_size(2 * sizeof(uintptr_t)), may_alias));

size_t ab_stack_size(void) {
  if (!rb_const_defined(rb_cObject, rb_intern("RubyVM"))) return 0;
  VALUE vm = rb_const_get(rb_cObject, rb_intern("RubyVM"));
  if (!rb_const_defined(vm, rb_intern("DEFAULT_PARAMS"))) return 0;
  VALUE params = rb_const_get(vm, rb_intern("DEFAULT_PARAMS"));
  VALUE size = rb_hash_lookup(params, ID2SYM(rb_intern("fiber_machine_stack_size")));
  if (NIL_P(size) || NUM2SIZET(size) < WATERMARK + RESERVE + PAGE) return 0;
  return NUM2SIZET(size) - RESERVE;
}

static char *page_below(char *address) {
  return (char *)((uintptr_t)address & ~(uintptr_t)(PAGE - 1));
}

/* Reads memory below the stack pointer, which still belongs to the stack. */
__attribute__((no_sanitize("address", "undefined"))) bool ab_stack_deep(const ab_stack *stack) {
  if (stack->depth == 0) return false;
  const char *page = page_below(stack->base - WATERMARK);
  words seen = {0};
  for (size_t i = 0; i < WINDOWS; i++) {
    const words *window = (const words *)(page + i * STRIDE);
#pragma GCC unroll 8
    for (size_t j = 0; j < WINDOW; j++) seen |= window[j];
  }
  return (seen[0] | seen[1]) != 0;
}

__attribute__((noinline)) void ab_stack_wipe(void) {
  char dead[SWITCH];
  memset(dead, 0, sizeof dead);
  __asm__ volatile("" : : "r"(dead) : "memory");
}

void ab_stack_give_back(ab_stack *stack) {
  if (stack->depth == 0) return;
  char *end = page_below(stack->base - IN_USE),
       *start = page_below(stack->base - stack->depth) + PAGE;
  /* What cannot be given back stays; that only costs memory. */
  if (!ab_os_give_back(start, (size_t)(end - start))) stack->depth = 0;
}

void ab_stack_init(ab_stack *stack, size_t size) {
  stack->base = __builtin_frame_address(0);
  stack->depth = size;
  if (ab_stack_deep(stack)) ab_stack_give_back(stack);
}
