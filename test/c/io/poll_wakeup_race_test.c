/* The same wake-ups, where a poller over poll(2) is woken. */
#include "io/poller_backend.h"

#define ab_poller_init(mem) ab__poller_init_with(mem, &ab__poller_poll)
#include "io/wakeup_race_test.c"
