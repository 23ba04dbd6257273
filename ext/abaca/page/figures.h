/* What an engine counts: counters, which only grow, and what there is now. The struct is a part of
 * the page that processes share (page/layout.h), so its offsets are fixed. */
#ifndef AB_PAGE_FIGURES_H
#define AB_PAGE_FIGURES_H

#include "base/base.h"

#define AB_CACHE_LINE 64

/* Why a request was answered 503 without the application. The order is a part of the page's
 * layout. */
#define AB_REJECTIONS(REASON)                                                                      \
  REASON(QUEUE_FULL, "queue_full")           /* max_queue others waited already */                 \
  REASON(QUEUE_TIMEOUT, "queue_timeout")     /* not taken for queue_timeout */                     \
  REASON(REQUEST_TIMEOUT, "request_timeout") /* not taken for request_timeout */                   \
  REASON(SHUTDOWN, "shutdown")               /* the server ended before it was taken */            \
  REASON(NO_FIBER, "no_fiber")               /* no memory for its fiber or thread */

enum ab_rejection {
#define AB_REJECTION_NAME(name, text) AB_REJECT_##name,
  AB_REJECTIONS(AB_REJECTION_NAME)
#undef AB_REJECTION_NAME
      AB_REJECT_COUNT
};

/* Statuses with which the engine itself answers what is wrong with a request. The order is a part
 * of the page's layout. */
#define AB_FAULT_STATUSES(STATUS)                                                                  \
  STATUS(400)                                                                                      \
  STATUS(408)                                                                                      \
  STATUS(413)                                                                                      \
  STATUS(414)                                                                                      \
  STATUS(417)                                                                                      \
  STATUS(421)                                                                                      \
  STATUS(431)                                                                                      \
  STATUS(501)                                                                                      \
  STATUS(503)                                                                                      \
  STATUS(505)

enum ab_fault {
#define AB_FAULT_NAME(status) AB_FAULT_##status,
  AB_FAULT_STATUSES(AB_FAULT_NAME)
#undef AB_FAULT_NAME
      AB_FAULT_OTHER, /* a connection of HTTP/2 has broken its rules: there is no status */
  AB_FAULT_COUNT
};

/* The bodies that are buffered before they may be read. */
typedef struct ab_body_store {
  uint64_t bytes;  /* framing included, until they are used up */
  uint32_t coming; /* bodies of which more has to come */
} ab_body_store;

/* Whole cache lines, of which the first changes with every request. One thread at a time writes, by
 * plain stores of whole words; a reader in another process loads each word at once, relaxed. */
typedef struct ab_figures {
  uint64_t requests;    /* handed to the application */
  uint64_t accepted;    /* connections */
  uint64_t received;    /* bytes */
  uint64_t sent;        /* bytes */
  ab_body_store bodies; /* now: those that are buffered before their requests may be taken */
  uint32_t connections; /* open now */
  uint32_t in_app;      /* requests that the application has now */
  uint32_t waiting;     /* requests that wait to be taken now, */
  uint32_t held;        /* ... and are held back meanwhile, since they could only wait */

  uint64_t refused;  /* connections, for want of descriptors or memory */
  uint64_t errors;   /* requests that the engine itself answered with 4xx or 5xx */
  uint64_t timeouts; /* connections closed by a deadline, idle ones included */
  uint64_t expired;  /* requests whose request_timeout has passed */
  uint64_t detached; /* connections that the application has taken over so far */
  uint64_t probes;   /* requests for a health path, which the engine has answered */
  uint64_t queued;   /* requests that were not taken at once */
  uint64_t left;     /* ... and whose peers had gone before they were taken */

  uint64_t rejected[AB_REJECT_COUNT];
  uint32_t taken_over; /* of `detached`, those that were open when they were last looked at */
  uint32_t for_thread; /* of `in_app`, those that wait for a thread now */
  ab_nsec turned;      /* when the engine turned last, on whatever thread; not in the table below */
  ab_nsec due; /* when the request taken last should be over; 0: the engine waits for events */

  uint64_t moved_out; /* connections that went to other workers, with requests that waited */
  uint64_t moved_in;  /* ... that came from them */
  uint32_t pressure;  /* microseconds that a request would wait, at most, if all go on in time */
  uint32_t shut;      /* 1: it leaves new connections to others, since it is full or stalls */
  uint32_t unused_2;

  uint32_t tls_waiting;     /* TLS connections whose handshake is not done now */
  uint64_t tls_handshakes;  /* that were done */
  uint64_t tls_resumed;     /* of these, those that went on with an earlier session */
  uint64_t tls_failed;      /* that were not: a fault, a deadline, or the peer went */
  uint32_t tls_connections; /* open now, those that wait included */
  uint8_t padding_2[4];

  uint64_t faults[AB_FAULT_COUNT]; /* `errors`, by status */
  uint8_t padding_3[40];
} ab_figures;

/* All of them: name, offset, bytes. A reader in another language takes its table from here. */
#define AB_FIGURES(COUNTER, GAUGE)                                                                 \
  COUNTER(requests, 0, 8)                                                                          \
  COUNTER(accepted, 8, 8)                                                                          \
  COUNTER(received, 16, 8)                                                                         \
  COUNTER(sent, 24, 8)                                                                             \
  GAUGE(bodies.bytes, 32, 8)                                                                       \
  GAUGE(bodies.coming, 40, 4)                                                                      \
  GAUGE(connections, 48, 4)                                                                        \
  GAUGE(in_app, 52, 4)                                                                             \
  GAUGE(waiting, 56, 4)                                                                            \
  GAUGE(held, 60, 4)                                                                               \
  COUNTER(refused, 64, 8)                                                                          \
  COUNTER(errors, 72, 8)                                                                           \
  COUNTER(timeouts, 80, 8)                                                                         \
  COUNTER(expired, 88, 8)                                                                          \
  COUNTER(detached, 96, 8)                                                                         \
  COUNTER(probes, 104, 8)                                                                          \
  COUNTER(queued, 112, 8)                                                                          \
  COUNTER(left, 120, 8)                                                                            \
  COUNTER(rejected[AB_REJECT_QUEUE_FULL], 128, 8)                                                  \
  COUNTER(rejected[AB_REJECT_QUEUE_TIMEOUT], 136, 8)                                               \
  COUNTER(rejected[AB_REJECT_REQUEST_TIMEOUT], 144, 8)                                             \
  COUNTER(rejected[AB_REJECT_SHUTDOWN], 152, 8)                                                    \
  COUNTER(rejected[AB_REJECT_NO_FIBER], 160, 8)                                                    \
  GAUGE(taken_over, 168, 4)                                                                        \
  GAUGE(for_thread, 172, 4)                                                                        \
  COUNTER(moved_out, 192, 8)                                                                       \
  COUNTER(moved_in, 200, 8)                                                                        \
  GAUGE(pressure, 208, 4)                                                                          \
  GAUGE(shut, 212, 4)                                                                              \
  COUNTER(tls_handshakes, 224, 8)                                                                  \
  COUNTER(tls_resumed, 232, 8)                                                                     \
  COUNTER(tls_failed, 240, 8)                                                                      \
  COUNTER(faults[AB_FAULT_400], 256, 8)                                                            \
  COUNTER(faults[AB_FAULT_408], 264, 8)                                                            \
  COUNTER(faults[AB_FAULT_413], 272, 8)                                                            \
  COUNTER(faults[AB_FAULT_414], 280, 8)                                                            \
  COUNTER(faults[AB_FAULT_417], 288, 8)                                                            \
  COUNTER(faults[AB_FAULT_421], 296, 8)                                                            \
  COUNTER(faults[AB_FAULT_431], 304, 8)                                                            \
  COUNTER(faults[AB_FAULT_501], 312, 8)                                                            \
  COUNTER(faults[AB_FAULT_503], 320, 8)                                                            \
  COUNTER(faults[AB_FAULT_505], 328, 8)                                                            \
  COUNTER(faults[AB_FAULT_OTHER], 336, 8)                                                          \
  GAUGE(tls_waiting, 220, 4)                                                                       \
  GAUGE(tls_connections, 248, 4)

#define AB_FIGURE_STANDS(name, offset, bytes)                                                      \
  _Static_assert(offsetof(ab_figures, name) == (offset) &&                                         \
                     sizeof(((ab_figures *)0)->name) == (bytes),                                   \
                 "a figure stands where readers look for it");
AB_FIGURES(AB_FIGURE_STANDS, AB_FIGURE_STANDS)
#undef AB_FIGURE_STANDS
_Static_assert(offsetof(ab_figures, turned) == 176 && sizeof(ab_figures) == 6 * AB_CACHE_LINE,
               "figures fill cache lines");

/* The engine has answered with that status, or ended a connection: 0. */
void ab_figures_fault(ab_figures *figures, int status);
/* The status of a fault; 0 for AB_FAULT_OTHER. */
int ab_fault_status(enum ab_fault fault);

const char *ab_rejection_name(enum ab_rejection why);

/* A copy of what another thread or process is writing: each word is one that was there. */
ab_figures ab_figures_load(const ab_figures *from);
/* For whoever shows them: a request that waits for a thread is not in the application, though the
 * engine has handed it over. */
void ab_figures_put_back(ab_figures *figures);
/* Adds counters and what there is now. */
void ab_figures_add(ab_figures *sum, const ab_figures *one);
/* Takes the counters of `before` off. */
void ab_figures_since(ab_figures *figures, const ab_figures *before);
/* There is nothing now. Other processes may read meanwhile. */
void ab_figures_clear_now(ab_figures *figures);
/* There is now what `from` has. Other processes may read meanwhile. */
void ab_figures_show_now(ab_figures *figures, const ab_figures *from);

#endif
