/* An intrusive doubly linked list; its head is a node. ab_list_remove may be called twice. */
#ifndef AB_BASE_LIST_H
#define AB_BASE_LIST_H

#include "base/base.h"

typedef struct ab_list {
  struct ab_list *next, *prev;
} ab_list;

static inline void ab_list_init(ab_list *node) {
  node->next = node->prev = node;
}

/* True for a list without members, and for a node that is on no list. */
static inline bool ab_list_empty(const ab_list *node) {
  return node->next == node;
}

/* The same for a thread without the lock that guards the list: it may be wrong a moment later. */
static inline bool ab_list_seems_empty(const ab_list *head) {
  return __atomic_load_n(&head->next, __ATOMIC_RELAXED) == head;
}

/* `prev` may be a head that ab_list_seems_empty looks at. */
static inline void ab_list_set_next(ab_list *prev, ab_list *next) {
  __atomic_store_n(&prev->next, next, __ATOMIC_RELAXED);
}

static inline void ab_list_insert_between(ab_list *node, ab_list *prev, ab_list *next) {
  node->prev = prev;
  node->next = next;
  ab_list_set_next(prev, node);
  next->prev = node;
}

static inline void ab_list_append(ab_list *head, ab_list *node) {
  ab_list_insert_between(node, head->prev, head);
}

static inline void ab_list_prepend(ab_list *head, ab_list *node) {
  ab_list_insert_between(node, head, head->next);
}

static inline void ab_list_remove(ab_list *node) {
  ab_list_set_next(node->prev, node->next);
  node->next->prev = node->prev;
  ab_list_init(node);
}

/* Takes the first member off the list; NULL if there is none. */
static inline ab_list *ab_list_shift(ab_list *head) {
  if (ab_list_empty(head)) return NULL;
  ab_list *node = head->next;
  ab_list_remove(node);
  return node;
}

/* Moves all members of `from` to the end of `to`; `from` is empty afterwards. */
static inline void ab_list_splice(ab_list *to, ab_list *from) {
  if (ab_list_empty(from)) return;
  from->next->prev = to->prev;
  to->prev->next = from->next;
  from->prev->next = to;
  to->prev = from->prev;
  ab_list_init(from);
}

/* Walks the members; the body may remove the current one. */
#define ab_list_each(node, tmp, head)                                                              \
  for (ab_list *node = (head)->next, *tmp = node->next; node != (head);                            \
       node = tmp, tmp = node->next)

#endif
