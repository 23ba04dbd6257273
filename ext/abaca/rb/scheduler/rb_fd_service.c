/* What is at the other end of the descriptors that work waits for. The kernel is asked once for
 * each of them. */
#include "rb/scheduler/rb_scheduler.h"

/* A wait for output may be for a connection that is being made, so that it is a new one: the
 * number, and even the object, may have been another's. */
static bool is_known(const ab_fd_state *state, uint32_t events) {
  return state->asked == state->io && state->asked && !(events & AB_POLL_OUT);
}

enum ab_state ab__fd_service(ab_loop *loop, const ab_waiter *waiter, const ab_addr **peer) {
  ab_fd_state *state = waiter->descriptor;
  if (!state) return AB_STATE_IO; /* it waits for several */
  if (!is_known(state, waiter->events)) {
    enum ab_state service;
    state->asked =
        ab_services_ask(loop->sight.services, waiter->fd, &service, &state->peer) ? state->io : 0;
    state->service = (uint8_t)service;
  }
  *peer = state->peer.family ? &state->peer : NULL;
  return (enum ab_state)state->service;
}
