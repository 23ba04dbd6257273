/* Grows the heap: allocates and holds as many objects as there should be free slots, then drops
 * them. Ruby frees empty pages when over 65 % of the heap is free, so a small object (a peg)
 * stays in each page. */
#include "rb/pool/rb_gc_pace.h"

#include <ruby/version.h>
#include <time.h>

#include "io/timer.h"

/* Free slots that are added at first, by number of live fibers. Memory counts as well. */
static const struct { size_t fibers, slots; } steps[] = {{256, 131072}, {16000, 262144}};

/* Limits for expensive collections, by fiber and in all (26 MB, beyond which caches miss). */
#define MAX_SLOTS_PER_FIBER 512
#define MAX_SLOTS           640000

/* The part of CPU time that collections may take, judged after MIN_WORK ms. */
#define SHARE    4
#define MIN_WORK 500

/* At one check the heap grows at most by this factor. */
#define MAX_GROWTH 8

/* A slice works for this long, and looks at the clock once per this many objects. */
#define SLICE_TIME  (AB_NSEC_PER_MS * 3 / 10)
#define SLICE_CHECK 32

/* Ruby's pages are 16 or 64 KiB, aligned. The mask suits both: up to four pegs in a page. */
#define PAGE_MASK (~(uintptr_t)0x3fff)

/* From Ruby 3.2 on, these parts of AB_GC_PACE_MIX objects get slots of 40, 80, 160, 320 and 640
 * bytes, about as a Rack request uses them (but see learn_mix). The larger are strings. */
static const struct {
  uint16_t share, length;
} sizes[AB_GC_PACE_SIZES] = {{136, 0}, {64, 48}, {32, 120}, {16, 280}, {8, 600}};

/* Fewer objects than these say nothing about the mix. */
#define MIN_MIX 10000

void ab_gc_pace_init(ab_gc_pace *pace) {
  *pace = (ab_gc_pace){.pegs = Qnil, .next_pegs = Qnil, .held = Qnil, .multiple = 1};
  for (size_t i = 0, end = 0; i < AB_GC_PACE_SIZES; i++)
    pace->ends[i] = (uint16_t)(end += sizes[i].share);
}

/* Objects of each size since Ruby started. False before Ruby 3.3, which does not count them. */
static bool count_objects(size_t counts[AB_GC_PACE_SIZES]) {
  if (RUBY_API_VERSION_CODE < 30300) return false;
  VALUE key = ID2SYM(rb_intern("total_allocated_objects"));
  for (int i = 0; i < AB_GC_PACE_SIZES; i++) {
    VALUE argv[] = {INT2FIX(i)};
    VALUE heap = rb_check_funcall(rb_mGC, rb_intern("stat_heap"), 1, argv);
    VALUE count = RB_TYPE_P(heap, T_HASH) ? rb_hash_aref(heap, key) : Qnil;
    if (!RB_INTEGER_TYPE_P(count)) return false;
    counts[i] = NUM2SIZET(count);
  }
  return true;
}

/* The sizes that this app uses, so that none of them runs out long before the others. */
static void learn_mix(ab_gc_pace *pace) {
  size_t counts[AB_GC_PACE_SIZES], total = 0, sum = 0;
  if (!count_objects(counts)) return;
  for (int i = 0; i < AB_GC_PACE_SIZES; i++) total += counts[i] - pace->allocated[i];
  if (total < MIN_MIX) return;
  for (int i = 0; i < AB_GC_PACE_SIZES; i++) {
    sum += counts[i] - pace->allocated[i];
    pace->allocated[i] = counts[i];
    pace->ends[i] = (uint16_t)((sum * AB_GC_PACE_MIX + total - 1) / total);
  }
}

/* CPU time of the thread in which most collections run. */
static uint64_t cpu_ms(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / AB_NSEC_PER_MS;
}

static uint64_t gc_ms(void) {
  return rb_gc_stat(ID2SYM(rb_intern("time")));
}

void ab_gc_pace_start(ab_gc_pace *pace) {
  pace->on = true;
  pace->collecting = gc_ms();
  pace->working = cpu_ms();
  size_t counts[AB_GC_PACE_SIZES];
  if (count_objects(counts)) MEMCPY(pace->allocated, counts, size_t, AB_GC_PACE_SIZES);
}

void ab_gc_pace_mark(const ab_gc_pace *pace) {
  rb_gc_mark(pace->pegs);
  rb_gc_mark(pace->next_pegs);
  rb_gc_mark(pace->held);
}

static size_t steps_for(size_t live) {
  size_t count = 0;
  while (count < AB_ARRAY_LEN(steps) && live >= steps[count].fibers) count++;
  return count;
}

size_t ab_gc_pace_next(const ab_gc_pace *pace) {
  return pace->on && pace->step < AB_ARRAY_LEN(steps) ? steps[pace->step].fibers : SIZE_MAX;
}

size_t ab_gc_pace_slots(const ab_gc_pace *pace) {
  return NIL_P(pace->pegs) ? 0 : pace->wanted;
}

bool ab_gc_pace_paces(const ab_gc_pace *pace) {
  return pace->on && pace->step > 0;
}

/* The slots that the last step calls for, with this many fibers. */
static size_t slots_wanted(const ab_gc_pace *pace, size_t live) {
  if (pace->step == 0) return 0;
  size_t slots = steps[pace->step - 1].slots, most = live * MAX_SLOTS_PER_FIBER;
  if (most > MAX_SLOTS) most = MAX_SLOTS;
  if (most < slots) most = slots;
  return slots * pace->multiple < most ? slots * pace->multiple : most;
}

bool ab_gc_pace_look(ab_gc_pace *pace, size_t live) {
  uint64_t now_collecting = gc_ms(), now_working = cpu_ms();
  uint64_t working = now_working - pace->working, collecting = now_collecting - pace->collecting;
  if (working < MIN_WORK) return false;
  pace->collecting = now_collecting;
  pace->working = now_working;
  /* While a step is in progress, it is what the collections are for. */
  if (!pace->on || !NIL_P(pace->held) || collecting * SHARE <= working) return false;
  /* With n times as many free slots, they cost an nth. */
  uint64_t rest = working > collecting ? working - collecting : 1, growth = 2;
  while (growth < MAX_GROWTH && growth * rest < collecting * (SHARE - 1)) growth *= 2;
  pace->multiple *= growth;
  if (slots_wanted(pace, live) > pace->wanted) return true;
  pace->multiple /= growth;
  return false;
}

void ab_gc_pace_begin(ab_gc_pace *pace, size_t live) {
  size_t step = steps_for(live);
  if (step > pace->step) pace->step = step;
  size_t wanted = slots_wanted(pace, live);
  if (wanted <= pace->wanted) return;
  pace->wanted = wanted;
  if (!NIL_P(pace->held)) return; /* the step in progress grows */
  learn_mix(pace);
  pace->next_pegs = rb_ary_new();
  pace->held = rb_ary_new_capa((long)pace->wanted);
}

/* The size class of object `number`, spread evenly: an interrupted step has the right mix. */
static size_t pace_size_of(const ab_gc_pace *pace, size_t number) {
#if RUBY_API_VERSION_CODE >= 30200
  size_t place = number * 159 % AB_GC_PACE_MIX;
  for (size_t i = 0; i < AB_GC_PACE_SIZES; i++) {
    if (place < pace->ends[i]) return i;
  }
#else
  (void)pace;
  (void)number;
#endif
  return 0;
}

static void allocate(ab_gc_pace *pace) {
  size_t size = pace_size_of(pace, (size_t)RARRAY_LEN(pace->held));
  long length = sizes[size].length;
  VALUE object = length ? rb_str_new(NULL, length) : rb_obj_alloc(rb_cObject);
  rb_ary_push(pace->held, object);
  if ((object & PAGE_MASK) == pace->pages[size]) return;
  pace->pages[size] = object & PAGE_MASK;
  rb_ary_push(pace->next_pegs, object);
}

void ab_gc_collect_in_slices(void) {
  VALUE options = rb_hash_new();
  rb_hash_aset(options, ID2SYM(rb_intern("immediate_mark")), Qfalse);
  rb_hash_aset(options, ID2SYM(rb_intern("immediate_sweep")), Qfalse);
  rb_funcallv_kw(rb_mGC, rb_intern("start"), 1, &options, RB_PASS_KEYWORDS);
}

static void pace_finish(ab_gc_pace *pace) {
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
      pace_finish(pace);
      return Qfalse;
    }
  } while (ab_clock_monotonic() < end);
  return Qtrue;
}

static VALUE enable(VALUE was_disabled) {
  if (!RTEST(was_disabled)) rb_gc_enable();
  return Qnil;
}

/* No collection runs within the slice: it would find everything alive. */
bool ab_gc_pace_slice(ab_gc_pace *pace) {
  if (NIL_P(pace->held)) return false;
  if (RTEST(rb_ensure(fill, (VALUE)pace, enable, rb_gc_disable()))) return true;
  /* Collections that the app caused meanwhile have aged some of the objects. */
  ab_gc_collect_in_slices();
  return false;
}

void ab_gc_pace_shrink(ab_gc_pace *pace, size_t live) {
  /* A quarter, so that the heap does not follow a number that goes up and down. */
  if (!NIL_P(pace->held) || pace->step == 0 || live > steps[pace->step - 1].fibers / 4) return;
  pace->pegs = Qnil;
  pace->step = pace->wanted = 0;
  pace->multiple = 1;
}
