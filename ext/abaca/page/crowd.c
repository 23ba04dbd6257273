#include "page/crowd.h"

#include <string.h>

#include "page/look.h"

static bool crowd_same(const ab_crowd_wait *wait, uint32_t state, const ab_addr *peer) {
  if (wait->state != state || wait->peer.family != peer->family) return false;
  return !peer->family || (wait->peer.port == peer->port &&
                           memcmp(wait->peer.bytes, peer->bytes, sizeof(peer->bytes)) == 0);
}

/* A state without a peer always has a place: there is one more for each. */
static ab_crowd_wait *wait_of(ab_crowd *crowd, uint32_t state, const ab_addr *peer) {
  for (uint32_t i = 0; i < crowd->wait_count; i++) {
    if (crowd_same(&crowd->waits[i], state, peer)) return &crowd->waits[i];
  }
  if (peer->family && crowd->wait_count >= AB_CROWD_WAITS)
    return wait_of(crowd, state, &(ab_addr){.family = 0});
  ab_crowd_wait *wait = &crowd->waits[crowd->wait_count++];
  *wait = (ab_crowd_wait){.state = state};
  if (peer->family) wait->peer = *peer;
  return wait;
}

static void add(ab_crowd *crowd, const ab_row *row, ab_nsec now) {
  ab_nsec here = now > row->since ? now - row->since : 0;
  ab_crowd_wait *wait = wait_of(crowd, row->state, &row->waits_for);
  wait->count++;
  if (here > wait->longest) wait->longest = here;
  crowd->now[row->state]++;
  crowd->sums[row->state] += here;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) crowd->sums[i] += row->sums[i];
}

static void add_all(ab_crowd *crowd, const ab_row *rows, uint32_t count, ab_nsec now) {
  for (uint32_t i = 0; i < count; i++) {
    ab_row row;
    if (ab_row_look(&rows[i], &row, false)) add(crowd, &row, now);
  }
}

void ab_page_crowd(const ab_page_parts *parts, ab_nsec now, ab_crowd *crowd) {
  *crowd = (ab_crowd){.wait_count = 0};
  ab_page_view view = ab_page_look(parts->slot);
  if (!view.settled || !ab_page_is_live(view.state)) return;
  add_all(crowd, parts->rows, ab_page_rows_marked(parts), now);
  add_all(crowd, parts->queued, ab_page_queued_marked(parts), now);
}
