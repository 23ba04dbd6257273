/* kqueue(2) as FreeBSD and macOS declare it, as far as io/poller_kqueue.c asks. The calls are in
 * io/kqueue_poller_test.c. */
#ifndef AB_TEST_SYS_EVENT_H
#define AB_TEST_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

struct kevent {
  uintptr_t ident;
  int16_t filter;
  uint16_t flags;
  uint32_t fflags;
  intptr_t data;
  void *udata;
};

#define EVFILT_READ  (-1)
#define EVFILT_WRITE (-2)

#define EV_ADD     0x0001
#define EV_DELETE  0x0002
#define EV_ONESHOT 0x0010
#define EV_CLEAR   0x0020
#define EV_RECEIPT 0x0040
#define EV_ERROR   0x4000
#define EV_EOF     0x8000

#define EV_SET(event, id, kind, bits, more, number, pointer)                                       \
  (*(event) = (struct kevent){(uintptr_t)(id), (kind), (bits), (more), (number), (pointer)})

int kqueue(void);
int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout);

#endif
