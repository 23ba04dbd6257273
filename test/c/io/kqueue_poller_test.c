/* What the back end for kqueue asks of the kernel, and what it makes of the answers. The kernel is
 * made up here, after the manual pages: how a real one behaves is not shown by this. */
#ifndef AB_HAS_KQUEUE
#define AB_HAS_KQUEUE 1
#endif
#include "io/poller_kqueue.c"

#include <errno.h>

#include "check.h"

/* --- the kernel --- */

#define MOST 8

static struct kevent notes[MOST], pending[MOST];
static int note_count, pending_count;

int kqueue(void) {
  note_count = pending_count = 0;
  return open("/dev/null", O_RDONLY);
}

static struct kevent *note_of(int fd, int filter) {
  for (int i = 0; i < note_count; i++)
    if (notes[i].ident == (uintptr_t)fd && notes[i].filter == filter) return &notes[i];
  return NULL;
}

static int apply(const struct kevent *change) {
  struct kevent *note = note_of((int)change->ident, change->filter);
  if (change->flags & EV_DELETE) {
    if (!note) return ENOENT;
    *note = notes[--note_count];
    return 0;
  }
  if (!note && note_count == MOST) return ENOMEM;
  *(note ? note : &notes[note_count++]) = *change;
  return 0;
}

int kevent(int queue AB_UNUSED, const struct kevent *changes, int change_count,
           struct kevent *events, int event_count, const struct timespec *timeout AB_UNUSED) {
  for (int i = 0; i < change_count; i++) {
    CHECK(changes[i].flags & EV_RECEIPT && i < event_count);
    int error = apply(&changes[i]);
    events[i] = changes[i];
    events[i].flags = EV_ERROR;
    events[i].data = error;
  }
  if (change_count > 0) return change_count;
  int count = pending_count;
  for (int i = 0; i < count; i++) events[i] = pending[i];
  pending_count = 0;
  return count;
}

/* A registration has an event. */
static void happens(int fd, int filter, uint16_t flags, uint32_t fflags) {
  const struct kevent *note = note_of(fd, filter);
  CHECK(note != NULL);
  if (!note) return;
  pending[pending_count] = *note;
  pending[pending_count].flags |= flags;
  pending[pending_count++].fflags = fflags;
}

/* --- the poller --- */

typedef struct probe {
  ab_watch watch;
  uint32_t events;
  int calls;
} probe;

static void note_events(ab_watch *watch, uint32_t events) {
  probe *p = AB_CONTAINER_OF(watch, probe, watch);
  p->events = events;
  p->calls++;
}

typedef struct fixture {
  ab_poller *poller;
  int ends[2];
  probe p;
} fixture;

static fixture make(void) {
  fixture f = {.poller = ab__poller_init_with(&ab_mem_libc, &ab__poller_kqueue)};
  if (!f.poller || pipe(f.ends) != 0) abort();
  f.p.watch = (ab_watch){.ready = note_events, .fd = f.ends[0]};
  return f;
}

static void set(fixture *f, uint32_t events) {
  f->p.calls = 0;
  CHECK_INT(AB_OK, ab_poller_set(f->poller, &f->p.watch, events));
}

/* What one turn tells; 0: nothing. */
static uint32_t told(fixture *f) {
  f->p.events = 0;
  f->p.calls = 0;
  ab_poller_wait(f->poller, 0);
  ab_poller_dispatch(f->poller);
  CHECK(f->p.calls <= 1);
  return f->p.events;
}

static void end(fixture *f) {
  ab_poller_fini(f->poller);
  close(f->ends[0]);
  close(f->ends[1]);
}

static int flags_of(const fixture *f, int filter) {
  const struct kevent *note = note_of(f->ends[0], filter);
  return note ? note->flags & (EV_CLEAR | EV_ONESHOT) : -1;
}

CHECK_CASE(a_registration_has_a_filter_for_each_direction) {
  fixture f = make();
  set(&f, AB_POLL_IN | AB_POLL_RDHUP | AB_POLL_EDGE);
  CHECK_INT(EV_CLEAR, flags_of(&f, EVFILT_READ));
  CHECK_INT(-1, flags_of(&f, EVFILT_WRITE));
  set(&f, AB_POLL_OUT | AB_POLL_ONESHOT);
  CHECK_INT(-1, flags_of(&f, EVFILT_READ));
  CHECK_INT(EV_ONESHOT, flags_of(&f, EVFILT_WRITE));
  set(&f, AB_POLL_IN | AB_POLL_OUT);
  CHECK_INT(0, flags_of(&f, EVFILT_READ));
  CHECK_INT(0, flags_of(&f, EVFILT_WRITE));
  ab_poller_unset(f.poller, &f.p.watch, false);
  CHECK_INT(-1, flags_of(&f, EVFILT_READ));
  CHECK_INT(-1, flags_of(&f, EVFILT_WRITE));
  end(&f);
}

CHECK_CASE(one_call_has_the_events_of_both) {
  fixture f = make();
  set(&f, AB_POLL_IN | AB_POLL_OUT | AB_POLL_EDGE);
  happens(f.ends[0], EVFILT_WRITE, 0, 0);
  CHECK_INT(AB_POLL_OUT, told(&f));
  happens(f.ends[0], EVFILT_READ, 0, 0);
  happens(f.ends[0], EVFILT_WRITE, 0, 0);
  CHECK_INT(AB_POLL_IN | AB_POLL_OUT, told(&f));
  CHECK_INT(0, told(&f));
  end(&f);
}

/* Of one that this side has shut down, the kernel says the same as if nobody read any more. */
CHECK_CASE(the_end_of_one_direction_is_no_hangup) {
  fixture f = make();
  set(&f, AB_POLL_IN | AB_POLL_OUT | AB_POLL_RDHUP | AB_POLL_EDGE);
  happens(f.ends[0], EVFILT_WRITE, EV_EOF, 0);
  CHECK_INT(AB_POLL_OUT, told(&f));
  happens(f.ends[0], EVFILT_READ, EV_EOF, 0);
  CHECK_INT(AB_POLL_IN | AB_POLL_RDHUP, told(&f));
  happens(f.ends[0], EVFILT_WRITE, EV_EOF, 0);
  happens(f.ends[0], EVFILT_READ, EV_EOF, 0);
  CHECK_INT(AB_POLL_IN | AB_POLL_OUT | AB_POLL_RDHUP | AB_POLL_HUP, told(&f));
  end(&f);
}

CHECK_CASE(an_end_may_have_an_error) {
  fixture f = make();
  set(&f, AB_POLL_IN | AB_POLL_RDHUP | AB_POLL_EDGE);
  happens(f.ends[0], EVFILT_READ, EV_EOF, ECONNRESET);
  CHECK_INT(AB_POLL_IN | AB_POLL_RDHUP | AB_POLL_ERROR, told(&f));
  set(&f, AB_POLL_OUT | AB_POLL_EDGE);
  happens(f.ends[0], EVFILT_WRITE, EV_EOF, ECONNRESET);
  CHECK_INT(AB_POLL_OUT | AB_POLL_ERROR, told(&f));
  end(&f);
}

CHECK_CASE(an_event_of_an_earlier_registration_is_dropped) {
  fixture f = make();
  set(&f, AB_POLL_IN);
  happens(f.ends[0], EVFILT_READ, 0, 0);
  set(&f, AB_POLL_IN);
  CHECK_INT(0, told(&f));
  CHECK_INT(0, flags_of(&f, EVFILT_READ)); /* the new one stays */
  happens(f.ends[0], EVFILT_READ, 0, 0);
  ab_poller_unset(f.poller, &f.p.watch, true); /* and is not closed */
  CHECK_INT(0, told(&f));
  CHECK_INT(-1, flags_of(&f, EVFILT_READ));
  end(&f);
}

CHECK_CASE(a_wakeup_is_heard_once) {
  fixture f = make();
  ab_poller_wakeup(f.poller);
  happens(f.poller->bell.fd, EVFILT_READ, 0, 0);
  CHECK_INT(0, ab_poller_wait(f.poller, 0));
  CHECK(f.poller->woken);
  CHECK(!ab_os_bell_hush(&f.poller->bell));
  end(&f);
}

CHECK_CASE(half_a_registration_is_none) {
  fixture f = make();
  while (note_count < MOST - 1) notes[note_count++] = (struct kevent){.ident = 1000};
  CHECK_INT(AB_ENOMEM, ab_poller_set(f.poller, &f.p.watch, AB_POLL_IN | AB_POLL_OUT));
  CHECK_INT(ENOMEM, errno);
  CHECK_INT(-1, flags_of(&f, EVFILT_READ));
  end(&f);
}

CHECK_CASE(a_file_cannot_be_watched) {
  fixture f = make();
  FILE *file = tmpfile();
  f.p.watch.fd = fileno(file);
  CHECK_INT(AB_EINVAL, ab_poller_set(f.poller, &f.p.watch, AB_POLL_IN));
  CHECK_INT(EPERM, errno);
  fclose(file);
  end(&f);
}

CHECK_MAIN()
