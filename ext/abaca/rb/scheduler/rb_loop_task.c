/* Tasks are on the loop's heap by address: a hidden variable keeps their owners. */
#include "rb/scheduler/rb_loop_task.h"

/* The table of what a scheduler keeps alive, by the address of what needs it. */
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

void ab_loop_task_keep(ab_loop *loop, const void *key, VALUE owner) {
  rb_hash_aset(kept(loop, true), key_of(key), owner);
}

void ab_loop_task_drop(ab_loop *loop, const void *key) {
  VALUE table = kept(loop, false);
  if (!NIL_P(table)) rb_hash_delete(table, key_of(key));
}

static void run_task(ab_loop *loop, ab_timeout *timeout) {
  ab_loop_task *task = AB_CONTAINER_OF(timeout, ab_loop_task, timeout);
  VALUE table = kept(loop, false), key = key_of(task);
  volatile VALUE owner = rb_hash_lookup(table, key);
  rb_hash_delete(table, key);
  task->loop = NULL;
  task->run(task, loop->now);
  RB_GC_GUARD(owner);
}

void ab_loop_task_init(ab_loop_task *task, void (*run)(ab_loop_task *task, ab_nsec now)) {
  *task =
      (ab_loop_task){.timeout = {.fiber = Qnil, .exception = Qnil, .message = Qnil}, .run = run};
  task->timeout.task = run_task;
  ab_heap_node_init(&task->timeout.timer);
}

void ab_loop_task_arm(ab_loop_task *task, ab_loop *loop, VALUE owner, ab_nsec deadline) {
  if (task->loop) return;
  ab_loop_task_keep(loop, task, owner);
  if (ab_heap_arm(&loop->timeouts, &task->timeout.timer, deadline) != AB_OK) {
    ab_loop_task_drop(loop, task);
    rb_memerror();
  }
  task->loop = loop;
}

void ab_loop_task_cancel(ab_loop_task *task) {
  ab_loop *loop = task->loop;
  if (!loop) return;
  task->loop = NULL;
  ab_heap_cancel(&loop->timeouts, &task->timeout.timer);
  ab_loop_task_drop(loop, task);
}
