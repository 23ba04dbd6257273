/* Chores of a loop. An armed chore is on the loop's heap by address, so its owner must not go away
 * before: the scheduler's object refers to it from a hidden variable. */
#include "rb/scheduler/rb_chore.h"

/* The table of what a scheduler keeps, by the address of what needs it. */
static VALUE kept(const ab_loop *loop, bool make) {
  ID name = rb_intern("kept"); /* no @: Ruby code does not see it */
  VALUE table = rb_ivar_defined(loop->self, name) ? rb_ivar_get(loop->self, name) : Qnil;
  if (NIL_P(table) && make) {
    table = rb_hash_new();
    rb_ivar_set(loop->self, name, table);
  }
  return table;
}

/* Addresses are aligned, so this fits a Fixnum. */
static VALUE key_of(const void *address) {
  return LONG2FIX((long)((uintptr_t)address >> 3));
}

void ab_chore_keep(ab_loop *loop, const void *key, VALUE owner) {
  rb_hash_aset(kept(loop, true), key_of(key), owner);
}

void ab_chore_drop(ab_loop *loop, const void *key) {
  VALUE table = kept(loop, false);
  if (!NIL_P(table)) rb_hash_delete(table, key_of(key));
}

static void run_chore(ab_loop *loop, ab_timeout *timeout) {
  ab_chore *chore = AB_CONTAINER_OF(timeout, ab_chore, timeout);
  VALUE table = kept(loop, false), key = key_of(chore);
  volatile VALUE owner = rb_hash_lookup(table, key);
  rb_hash_delete(table, key);
  chore->loop = NULL;
  chore->run(chore, loop->now);
  RB_GC_GUARD(owner);
}

void ab_chore_init(ab_chore *chore, void (*run)(ab_chore *chore, ab_nsec now)) {
  *chore = (ab_chore){.timeout = {.fiber = Qnil, .exception = Qnil, .message = Qnil}, .run = run};
  chore->timeout.chore = run_chore;
  ab_heap_node_init(&chore->timeout.timer);
}

void ab_chore_arm(ab_chore *chore, ab_loop *loop, VALUE owner, ab_nsec deadline) {
  if (chore->loop) return;
  ab_chore_keep(loop, chore, owner);
  if (ab_heap_arm(&loop->timeouts, &chore->timeout.timer, deadline) != AB_OK) {
    ab_chore_drop(loop, chore);
    rb_memerror();
  }
  chore->loop = loop;
}

void ab_chore_cancel(ab_chore *chore) {
  ab_loop *loop = chore->loop;
  if (!loop) return;
  chore->loop = NULL;
  ab_heap_cancel(&loop->timeouts, &chore->timeout.timer);
  ab_chore_drop(loop, chore);
}
