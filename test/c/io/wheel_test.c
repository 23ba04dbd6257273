/* The wheel of coarse deadlines, case by case and against a simple model. */
#include "check.h"
#include "io/timer.h"
#include "random.h"

#define TICK AB_WHEEL_TICK

CHECK_CASE(wheel_is_empty_at_first) {
  static ab_wheel wheel;
  ab_wheel_node node;
  ab_wheel_init(&wheel, 12345 * TICK);
  ab_wheel_node_init(&node);
  CHECK(!ab_wheel_armed(&node));
  CHECK_INT(0, ab_wheel_deadline(&wheel));
  CHECK(ab_wheel_due(&wheel, UINT64_MAX) == NULL);
  ab_wheel_cancel(&wheel, &node);
  ab_wheel_fini(&wheel);
}

CHECK_CASE(wheel_hands_out_at_the_tick_after_the_deadline) {
  static ab_wheel wheel;
  ab_wheel_node exact, between;
  ab_wheel_init(&wheel, 10 * TICK + 5);
  ab_wheel_node_init(&exact);
  ab_wheel_node_init(&between);
  ab_wheel_arm(&wheel, &exact, 12 * TICK);
  ab_wheel_arm(&wheel, &between, 12 * TICK + 1);
  CHECK_INT(12 * TICK, ab_wheel_deadline(&wheel));
  CHECK(ab_wheel_due(&wheel, 12 * TICK - 1) == NULL);
  CHECK(ab_wheel_due(&wheel, 12 * TICK) == &exact);
  CHECK(ab_wheel_due(&wheel, 13 * TICK - 1) == NULL);
  CHECK_INT(13 * TICK, ab_wheel_deadline(&wheel));
  CHECK(ab_wheel_due(&wheel, 13 * TICK) == &between);
  CHECK_INT(0, ab_wheel_deadline(&wheel));
  ab_wheel_fini(&wheel);
}

CHECK_CASE(wheel_hands_out_a_past_deadline_at_the_next_tick) {
  static ab_wheel wheel;
  ab_wheel_node node;
  ab_wheel_init(&wheel, 1000 * TICK);
  ab_wheel_node_init(&node);
  ab_wheel_arm(&wheel, &node, 3 * TICK);
  CHECK(ab_wheel_due(&wheel, 1000 * TICK) == NULL);
  CHECK_INT(1001 * TICK, ab_wheel_deadline(&wheel));
  CHECK(ab_wheel_due(&wheel, 1001 * TICK) == &node);
  /* Who arms in the past again and again gets one call a tick, not an endless loop. */
  ab_wheel_arm(&wheel, &node, 0);
  CHECK(ab_wheel_due(&wheel, 1001 * TICK) == NULL);
  CHECK(ab_wheel_due(&wheel, 1002 * TICK) == &node);
  ab_wheel_fini(&wheel);
}

CHECK_CASE(wheel_keeps_later_rounds) {
  static ab_wheel wheel;
  ab_wheel_node near, far;
  ab_wheel_init(&wheel, 0);
  ab_wheel_node_init(&near);
  ab_wheel_node_init(&far);
  ab_wheel_arm(&wheel, &far, (7 + 3 * AB_WHEEL_SLOTS) * TICK);
  ab_wheel_arm(&wheel, &near, 7 * TICK);
  CHECK(ab_wheel_due(&wheel, 7 * TICK) == &near);
  CHECK(ab_wheel_due(&wheel, 7 * TICK) == NULL);
  for (ab_nsec round = 1; round < 3; round++) {
    CHECK_INT((7 + round * AB_WHEEL_SLOTS) * TICK, ab_wheel_deadline(&wheel));
    CHECK(ab_wheel_due(&wheel, (7 + round * AB_WHEEL_SLOTS) * TICK) == NULL);
  }
  CHECK(ab_wheel_due(&wheel, (7 + 3 * AB_WHEEL_SLOTS) * TICK) == &far);
  CHECK_INT(0, wheel.count);
  ab_wheel_fini(&wheel);
}

CHECK_CASE(wheel_survives_a_long_sleep) {
  static ab_wheel wheel;
  ab_wheel_node soon, later, never;
  const ab_nsec day = 24 * 3600 * AB_NSEC_PER_SEC;
  ab_wheel_init(&wheel, TICK);
  ab_wheel_node_init(&soon);
  ab_wheel_node_init(&later);
  ab_wheel_node_init(&never);
  ab_wheel_arm(&wheel, &later, day - 400 * TICK);
  ab_wheel_arm(&wheel, &soon, 65 * AB_NSEC_PER_SEC);
  ab_wheel_arm(&wheel, &never, 1000 * day);
  ab_wheel_node *first = ab_wheel_due(&wheel, day), *second = ab_wheel_due(&wheel, day);
  CHECK((first == &soon && second == &later) || (first == &later && second == &soon));
  CHECK(ab_wheel_due(&wheel, day) == NULL);
  CHECK_INT(1, wheel.count);
  CHECK(ab_wheel_due(&wheel, 365 * 1000 * day) == &never);
  ab_wheel_fini(&wheel);
}

CHECK_CASE(wheel_lets_due_nodes_be_moved_and_cancelled) {
  static ab_wheel wheel;
  ab_wheel_node nodes[4];
  ab_wheel_init(&wheel, 0);
  for (int i = 0; i < 4; i++) {
    ab_wheel_node_init(&nodes[i]);
    ab_wheel_arm(&wheel, &nodes[i], 4 * TICK);
  }
  CHECK(ab_wheel_due(&wheel, 4 * TICK) == &nodes[0]);
  /* The others are due as well; what the first one's handler does to them counts. */
  CHECK_INT(4 * TICK, ab_wheel_deadline(&wheel));
  ab_wheel_arm(&wheel, &nodes[1], 9 * TICK);
  ab_wheel_cancel(&wheel, &nodes[2]);
  ab_wheel_arm(&wheel, &nodes[3], 4 * TICK);
  CHECK(ab_wheel_due(&wheel, 4 * TICK) == NULL);
  CHECK(ab_wheel_due(&wheel, 5 * TICK) == &nodes[3]);
  CHECK(ab_wheel_due(&wheel, 8 * TICK) == NULL);
  CHECK_INT(9 * TICK, ab_wheel_deadline(&wheel));
  CHECK(ab_wheel_due(&wheel, 9 * TICK) == &nodes[1]);
  CHECK_INT(0, wheel.count);
  ab_wheel_fini(&wheel);
}

CHECK_CASE(wheel_fini_unlinks) {
  static ab_wheel wheel;
  ab_wheel_node waiting, due[2];
  ab_wheel_init(&wheel, 0);
  ab_wheel_node_init(&waiting);
  ab_wheel_arm(&wheel, &waiting, 50 * TICK);
  for (int i = 0; i < 2; i++) {
    ab_wheel_node_init(&due[i]);
    ab_wheel_arm(&wheel, &due[i], TICK);
  }
  CHECK(ab_wheel_due(&wheel, TICK) == &due[0]);
  ab_wheel_fini(&wheel);
  CHECK(!ab_wheel_armed(&waiting));
  CHECK(!ab_wheel_armed(&due[1]));
  CHECK_INT(0, ab_wheel_deadline(&wheel));
}

/* The model: the tick at which each node must come out. */
CHECK_CASE(wheel_agrees_with_a_model) {
  enum { NODES = 200, OPS = 20000 };
  static ab_wheel wheel;
  static ab_wheel_node nodes[NODES];
  static uint64_t expected[NODES]; /* 0: not armed */
  uint64_t seed = 7, last = 5;
  ab_nsec now = last * TICK + 17;
  uint32_t armed = 0;
  ab_wheel_init(&wheel, now);
  for (int i = 0; i < NODES; i++) ab_wheel_node_init(&nodes[i]);
  for (int op = 0; op < OPS; op++) {
    uint32_t which = random_next(&seed) % NODES, kind = random_next(&seed) % 16;
    if (kind < 9) {
      /* From a little in the past to three rounds ahead. */
      ab_nsec deadline =
          now - TICK + random_next(&seed) % (3 * AB_WHEEL_SLOTS) * TICK + random_next(&seed) % TICK;
      if (kind < 5) deadline = now + random_next(&seed) % (4 * TICK);
      uint64_t tick = (deadline + TICK - 1) / TICK;
      armed += expected[which] == 0;
      expected[which] = tick > last ? tick : last + 1;
      ab_wheel_arm(&wheel, &nodes[which], deadline);
    } else if (kind < 12) {
      armed -= expected[which] != 0;
      expected[which] = 0;
      ab_wheel_cancel(&wheel, &nodes[which]);
    } else if (kind < 15) {
      now += random_next(&seed) % TICK;
    } else {
      /* A jump of up to one hour. */
      if (random_next(&seed) % 8 == 0) now += random_next(&seed) % 14400 * TICK;
    }
    last = now / TICK;
    uint64_t earliest = UINT64_MAX, tick_before = wheel.tick;
    for (int i = 0; i < NODES; i++)
      if (expected[i] && expected[i] < earliest) earliest = expected[i];
    ab_nsec next = ab_wheel_deadline(&wheel);
    CHECK(armed ? next > tick_before * TICK && next <= earliest * TICK : next == 0);
    for (ab_wheel_node *node; (node = ab_wheel_due(&wheel, now));) {
      size_t i = (size_t)(node - nodes);
      CHECK(expected[i] != 0 && expected[i] <= last);
      expected[i] = 0;
      armed--;
    }
    uint32_t overdue = 0;
    for (int i = 0; i < NODES; i++) {
      overdue += expected[i] && expected[i] <= last;
      if (ab_wheel_armed(&nodes[i]) != (expected[i] != 0)) CHECK(!"the nodes agree");
    }
    CHECK_INT(0, overdue);
    CHECK_INT(armed, wheel.count);
    for (size_t i = 0; i < AB_WHEEL_SLOTS; i++)
      if ((wheel.occupied[i / 64] >> (i % 64) & 1) == ab_list_empty(&wheel.slots[i]))
        CHECK(!"the bitmap agrees");
  }
  ab_wheel_fini(&wheel);
}

CHECK_MAIN()
