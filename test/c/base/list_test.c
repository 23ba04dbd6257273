/* The intrusive list: order, removal from anywhere and twice, splicing, walking while removing. */
#include "base/list.h"
#include "check.h"

typedef struct item {
  char name;
  ab_list link;
} item;

static item *item_of(ab_list *node) {
  return AB_CONTAINER_OF(node, item, link);
}

/* Compares the members with a string, forwards and backwards. */
static void check_members(const char *expected, ab_list *head) {
  char forwards[16], backwards[16];
  size_t count = 0, back = 0, len = strlen(expected);
  for (ab_list *node = head->next; node != head && count < sizeof forwards; node = node->next)
    forwards[count++] = item_of(node)->name;
  for (ab_list *node = head->prev; node != head && back < sizeof backwards; node = node->prev)
    backwards[back++] = item_of(node)->name;
  CHECK_BYTES(expected, forwards, count);
  CHECK_INT(len, back);
  for (size_t i = 0; i < len && back == len; i++) CHECK_INT(expected[len - 1 - i], backwards[i]);
  CHECK_INT(len == 0, ab_list_empty(head));
}

static void fill(ab_list *head, item *items, const char *names) {
  ab_list_init(head);
  for (size_t i = 0; names[i]; i++) {
    items[i].name = names[i];
    ab_list_append(head, &items[i].link);
  }
}

CHECK_CASE(append_and_prepend_keep_order) {
  ab_list head;
  item items[3], first = {.name = '0'};
  fill(&head, items, "");
  check_members("", &head);
  fill(&head, items, "abc");
  check_members("abc", &head);
  ab_list_prepend(&head, &first.link);
  check_members("0abc", &head);
}

CHECK_CASE(remove_works_anywhere_and_twice) {
  ab_list head;
  item items[4];
  fill(&head, items, "abcd");
  ab_list_remove(&items[1].link);
  check_members("acd", &head);
  CHECK(ab_list_empty(&items[1].link));
  ab_list_remove(&items[1].link);
  check_members("acd", &head);
  ab_list_remove(&items[0].link);
  ab_list_remove(&items[3].link);
  check_members("c", &head);
  ab_list_remove(&items[2].link);
  check_members("", &head);
  ab_list_append(&head, &items[1].link);
  check_members("b", &head);
}

CHECK_CASE(shift_takes_the_first) {
  ab_list head;
  item items[2];
  fill(&head, items, "ab");
  CHECK(ab_list_shift(&head) == &items[0].link);
  CHECK(ab_list_empty(&items[0].link));
  check_members("b", &head);
  CHECK(ab_list_shift(&head) == &items[1].link);
  CHECK(ab_list_shift(&head) == NULL);
  check_members("", &head);
}

CHECK_CASE(splice_moves_all_to_the_end) {
  ab_list to, from;
  item left[2], right[3];
  fill(&to, left, "ab");
  fill(&from, right, "cde");
  ab_list_splice(&to, &from);
  check_members("abcde", &to);
  check_members("", &from);
  ab_list_splice(&to, &from);
  check_members("abcde", &to);
  ab_list_splice(&from, &to);
  check_members("abcde", &from);
  check_members("", &to);
}

CHECK_CASE(each_survives_removal_of_the_current) {
  ab_list head;
  item items[5];
  char seen[8];
  size_t count = 0;
  fill(&head, items, "abcde");
  ab_list_each (node, after, &head) {
    seen[count++] = item_of(node)->name;
    if (item_of(node)->name != 'c') ab_list_remove(node);
  }
  CHECK_BYTES("abcde", seen, count);
  check_members("c", &head);
  fill(&head, items, "");
  ab_list_each (node, after, &head) CHECK(false);
}

CHECK_MAIN()
