#include "rb/scheduler/rb_mutex_owner.h"

#include "base/base.h"
#include "rb/scheduler/rb_scheduler.h"

static VALUE first_word(VALUE mutex) {
  const VALUE *words = ab__object_data(mutex);
  return words ? *words : 0;
}

/* The first word of a Mutex that the current fiber holds; 0 if that of a free one is not 0. */
static VALUE note_of_current(void) {
  VALUE mutex = rb_mutex_new();
  if (first_word(mutex) || !RTEST(rb_mutex_trylock(mutex))) return 0;
  VALUE note = first_word(mutex);
  rb_mutex_unlock(mutex);
  return first_word(mutex) ? 0 : note;
}

static bool names_its_address(void) {
  return note_of_current() == (VALUE)ab__object_data(rb_fiber_current());
}

/* The words of a fiber that may be the right one: those in which every fiber had its own number. */
typedef struct candidates {
  bool is[AB_FIBER_WORDS_MAX];
  size_t count;
} candidates;

static VALUE narrow(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  candidates *left = (candidates *)data;
  VALUE fiber = rb_fiber_current(), note = note_of_current();
  const VALUE *words = ab__fiber_words(fiber);
  size_t count = ab__fiber_word_count(fiber);
  if (count < left->count) left->count = count;
  for (size_t i = 0; i < left->count; i++)
    if (note == 0 || words[i] != note) left->is[i] = false;
  return Qnil;
}

/* Serial numbers are small; a word with the same value by chance does not have it in each fiber. */
static VALUE find_word(VALUE arg) {
  ab_mutex_owner *how = (ab_mutex_owner *)arg;
  candidates left = {.count = AB_FIBER_WORDS_MAX};
  for (size_t i = 0; i < AB_FIBER_WORDS_MAX; i++) left.is[i] = true;
  for (int fibers = 0; fibers < 2; fibers++) ab__fiber_run(narrow, (VALUE)&left);
  size_t found = 0;
  for (size_t i = 0; i < left.count; i++) {
    if (!left.is[i]) continue;
    how->word = (uint16_t)i;
    found++;
  }
  how->kind = found == 1 ? AB_OWNER_BY_WORD : AB_OWNER_UNKNOWN;
  return Qnil;
}

int ab__mutex_owner_learn(ab_mutex_owner *how) {
  if (how->kind != AB_OWNER_UNTRIED) return 0;
  if (names_its_address()) {
    how->kind = AB_OWNER_BY_ADDRESS;
    return 0;
  }
  int state;
  rb_protect(find_word, (VALUE)how, &state);
  if (AB_LIKELY(state == 0)) return 0;
  if (!rb_obj_is_kind_of(rb_errinfo(), ab__fiber_error())) return state;
  rb_set_errinfo(Qnil); /* without a stack for a fiber there is no answer now */
  return 0;
}

bool ab__mutex_owner_is(const ab_mutex_owner *how, VALUE mutex, VALUE fiber) {
  VALUE note = first_word(mutex);
  if (note == 0) return false;
  if (how->kind == AB_OWNER_BY_ADDRESS) return note == (VALUE)ab__object_data(fiber);
  return how->word < ab__fiber_word_count(fiber) && ab__fiber_words(fiber)[how->word] == note;
}
