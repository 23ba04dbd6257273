/* How the heap is made to grow: as many objects as there shall be free slots are allocated and
 * held, then dropped. Ruby gives empty pages back to the system when more than 65 % of the heap is
 * free, so one small object stays in each page as a peg.
 */
#include "rb/rb_gc_pace.h"

#include "io/timer.h"

/* With so many live fibers there shall be SLOTS_PER_FIBER free slots for each of them. */
static const size_t steps[] = {256, 1000, 4000, 10000, 20000};

#define SLOTS_PER_FIBER 128

/* A slice works for so long, and looks at the clock once for so many objects. */
#define SLICE_TIME  (AB_NSEC_PER_MS * 3 / 10)
#define SLICE_CHECK 32

/* Ruby's pages are aligned to their size, 16 or 64 KiB. The smaller mask is right for both: a large
 * page gets up to four pegs. */
#define PAGE_MASK (~(uintptr_t)0x3fff)

/* Where slots have several sizes (Ruby 3.2): so many of 32 objects get slots of 40, 80, 160, 320
 * and 640 octets, about as a Rack request uses them. The larger ones are strings, as long as fits.
 */
static const struct {
  uint8_t share;
  uint16_t length;
} sizes[AB_GC_PACE_SIZES] = {{17, 0}, {8, 48}, {4, 120}, {2, 280}, {1, 600}};

void ab_gc_pace_init(ab_gc_pace *pace) {
  *pace = (ab_gc_pace){.pegs = Qnil, .next_pegs = Qnil, .held = Qnil};
}

void ab_gc_pace_mark(const ab_gc_pace *pace) {
  rb_gc_mark(pace->pegs);
  rb_gc_mark(pace->next_pegs);
  rb_gc_mark(pace->held);
}

static size_t steps_for(size_t live) {
  size_t count = 0;
  while (count < AB_ARRAY_LEN(steps) && live >= steps[count]) count++;
  return count;
}

size_t ab_gc_pace_next(const ab_gc_pace *pace) {
  return pace->on && pace->step < AB_ARRAY_LEN(steps) ? steps[pace->step] : SIZE_MAX;
}

size_t ab_gc_pace_slots(const ab_gc_pace *pace) {
  return NIL_P(pace->pegs) ? 0 : pace->wanted;
}

void ab_gc_pace_begin(ab_gc_pace *pace, size_t live) {
  size_t step = steps_for(live);
  if (step <= pace->step) return;
  pace->step = step;
  pace->wanted = steps[step - 1] * SLOTS_PER_FIBER;
  if (!NIL_P(pace->held)) return; /* the step that is going on grows */
  pace->next_pegs = rb_ary_new();
  pace->held = rb_ary_new_capa((long)pace->wanted);
}

/* The class of sizes that object `number` shall have. */
static size_t size_of(size_t number) {
#if RUBY_API_VERSION_CODE >= 30200
  size_t place = number % 32, end = 0;
  for (size_t i = 0; i < AB_GC_PACE_SIZES; i++) {
    end += sizes[i].share;
    if (place < end) return i;
  }
#else
  (void)number;
#endif
  return 0;
}

static void allocate(ab_gc_pace *pace) {
  size_t size = size_of((size_t)RARRAY_LEN(pace->held));
  long length = sizes[size].length;
  VALUE object = length ? rb_str_new(NULL, length) : rb_obj_alloc(rb_cObject);
  rb_ary_push(pace->held, object);
  if ((object & PAGE_MASK) == pace->pages[size]) return;
  pace->pages[size] = object & PAGE_MASK;
  rb_ary_push(pace->next_pegs, object);
}

/* Collections that the app caused meanwhile have made some of the objects old, and only a major one
 * frees those. It is an incremental one, in slices as well. */
static void collect_old(void) {
  VALUE options = rb_hash_new();
  rb_hash_aset(options, ID2SYM(rb_intern("immediate_mark")), Qfalse);
  rb_hash_aset(options, ID2SYM(rb_intern("immediate_sweep")), Qfalse);
  rb_funcallv_kw(rb_mGC, rb_intern("start"), 1, &options, RB_PASS_KEYWORDS);
}

static void finish(ab_gc_pace *pace) {
  rb_ary_clear(pace->held);
  pace->held = Qnil;
  pace->pegs = pace->next_pegs;
  pace->next_pegs = Qnil;
}

static VALUE fill(VALUE arg) {
  ab_gc_pace *pace = (ab_gc_pace *)arg;
  ab_nsec end = ab_clock_monotonic() + SLICE_TIME;
  do {
    for (int i = 0; i < SLICE_CHECK; i++) allocate(pace);
    if ((size_t)RARRAY_LEN(pace->held) >= pace->wanted) {
      finish(pace);
      return Qfalse;
    }
  } while (ab_clock_monotonic() < end);
  return Qtrue;
}

static VALUE enable(VALUE was_disabled) {
  if (!RTEST(was_disabled)) rb_gc_enable();
  return Qnil;
}

/* Within the slice no collection runs: it would find everything alive. */
bool ab_gc_pace_slice(ab_gc_pace *pace) {
  if (NIL_P(pace->held)) return false;
  if (RTEST(rb_ensure(fill, (VALUE)pace, enable, rb_gc_disable()))) return true;
  collect_old();
  return false;
}

void ab_gc_pace_shrink(ab_gc_pace *pace, size_t live) {
  /* A quarter, so that a number that goes up and down does not make the heap do so. */
  if (!NIL_P(pace->held) || pace->step == 0 || live > steps[pace->step - 1] / 4) return;
  pace->pegs = Qnil;
  pace->step = 0;
}
