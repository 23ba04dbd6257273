/* The heap of exact deadlines, case by case and against a simple model. */
#include "check.h"
#include "io/timer.h"
#include "random.h"

CHECK_CASE(heap_is_empty_at_first) {
  ab_heap heap;
  ab_heap_node node;
  ab_heap_init(&heap, &ab_mem_libc);
  ab_heap_node_init(&node);
  CHECK(!ab_heap_armed(&node));
  CHECK_INT(0, ab_heap_deadline(&heap));
  CHECK(ab_heap_due(&heap, UINT64_MAX) == NULL);
  ab_heap_cancel(&heap, &node);
  ab_heap_fini(&heap);
}

CHECK_CASE(heap_keeps_the_order_of_equal_deadlines) {
  enum { COUNT = 100 };
  ab_heap heap;
  ab_heap_node nodes[COUNT];
  ab_heap_init(&heap, &ab_mem_libc);
  for (int i = 0; i < COUNT; i++) {
    ab_heap_node_init(&nodes[i]);
    CHECK_INT(AB_OK, ab_heap_arm(&heap, &nodes[i], i % 3 == 0 ? 5 : 7));
  }
  /* Arming again puts it behind its equals. */
  CHECK_INT(AB_OK, ab_heap_arm(&heap, &nodes[0], 5));
  for (int i = 3; i < COUNT; i += 3) CHECK(ab_heap_due(&heap, 6) == &nodes[i]);
  CHECK(ab_heap_due(&heap, 6) == &nodes[0]);
  CHECK(ab_heap_due(&heap, 6) == NULL);
  CHECK_INT(7, ab_heap_deadline(&heap));
  for (int i = 0; i < COUNT; i++)
    if (i % 3) CHECK(ab_heap_due(&heap, 7) == &nodes[i]);
  CHECK_INT(0, heap.count);
  ab_heap_fini(&heap);
}

CHECK_CASE(heap_is_due_at_its_deadline_and_not_before) {
  ab_heap heap;
  ab_heap_node node;
  ab_heap_init(&heap, &ab_mem_libc);
  ab_heap_node_init(&node);
  CHECK_INT(AB_OK, ab_heap_arm(&heap, &node, 100));
  CHECK(ab_heap_due(&heap, 99) == NULL);
  CHECK(ab_heap_due(&heap, 100) == &node);
  CHECK(!ab_heap_armed(&node));
  CHECK_INT(AB_OK, ab_heap_arm(&heap, &node, 0));
  CHECK(ab_heap_deadline(&heap) != 0);
  CHECK(ab_heap_due(&heap, 0) == &node);
  ab_heap_fini(&heap);
}

CHECK_CASE(heap_survives_a_failing_allocator) {
  check_mem mem;
  check_mem_init(&mem, 2);
  ab_heap heap;
  ab_heap_node nodes[32];
  ab_heap_init(&heap, &mem.mem);
  int failed = -1;
  for (int i = 0; i < 32; i++) {
    ab_heap_node_init(&nodes[i]);
    int err = ab_heap_arm(&heap, &nodes[i], (ab_nsec)(100 - i));
    if (err == AB_OK) continue;
    CHECK_INT(AB_ENOMEM, err);
    failed = i;
    break;
  }
  CHECK(failed > 0);
  CHECK(!ab_heap_armed(&nodes[failed]));
  CHECK_INT(failed, heap.count);
  /* Moving needs no memory; and once there is some, the failed one can be armed. */
  CHECK_INT(AB_OK, ab_heap_arm(&heap, &nodes[0], 1));
  CHECK(ab_heap_due(&heap, 1) == &nodes[0]);
  CHECK_INT(AB_OK, ab_heap_arm(&heap, &nodes[failed], 2));
  CHECK(ab_heap_due(&heap, 2) == &nodes[failed]);
  ab_heap_fini(&heap);
  CHECK_INT(0, mem.live);
}

static bool heap_is_sound(const ab_heap *heap) {
  for (uint32_t i = 0; i < heap->count; i++) {
    const ab_heap_entry *entry = &heap->entries[i];
    if (entry->node->index != i || entry->node->deadline != entry->deadline) return false;
    if (i == 0) continue;
    const ab_heap_entry *parent = &heap->entries[(i - 1) / 4];
    if (parent->deadline > entry->deadline) return false;
    if (parent->deadline == entry->deadline && parent->sequence > entry->sequence) return false;
  }
  return true;
}

/* The model: for each node its deadline and the number of the operation that armed it. */
CHECK_CASE(heap_agrees_with_a_model) {
  enum { NODES = 300, OPS = 10000 };
  static ab_heap_node nodes[NODES];
  static struct {
    bool armed;
    ab_nsec deadline;
    int order;
  } model[NODES];
  ab_heap heap;
  uint64_t seed = 42;
  ab_nsec now = 1;
  ab_heap_init(&heap, &ab_mem_libc);
  for (int i = 0; i < NODES; i++) ab_heap_node_init(&nodes[i]);
  for (int op = 0; op < OPS; op++) {
    uint32_t which = random_next(&seed) % NODES, kind = random_next(&seed) % 10;
    if (kind < 6) {
      model[which].armed = true;
      model[which].deadline = now + random_next(&seed) % 50;
      model[which].order = op;
      CHECK_INT(AB_OK, ab_heap_arm(&heap, &nodes[which], model[which].deadline));
    } else if (kind < 8) {
      model[which].armed = false;
      ab_heap_cancel(&heap, &nodes[which]);
    } else {
      now += random_next(&seed) % 4;
    }
    for (;;) {
      int first = -1;
      for (int i = 0; i < NODES; i++)
        if (model[i].armed &&
            (first < 0 || model[i].deadline < model[first].deadline ||
             (model[i].deadline == model[first].deadline && model[i].order < model[first].order)))
          first = i;
      CHECK_INT(first < 0 ? 0 : model[first].deadline, ab_heap_deadline(&heap));
      bool due = first >= 0 && model[first].deadline <= now;
      ab_heap_node *node = ab_heap_due(&heap, now);
      CHECK(node == (due ? &nodes[first] : NULL));
      if (!due) break;
      model[first].armed = false;
    }
    if (!heap_is_sound(&heap)) {
      CHECK(!"the heap is sound");
      break;
    }
  }
  ab_heap_fini(&heap);
}

CHECK_MAIN()
