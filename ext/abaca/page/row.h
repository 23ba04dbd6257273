/* A row: one request in the application, or one that waits to be taken, as the page has it. At each
 * instant a request is in one state, so the sums of its states are its duration. A row is written
 * by one thread at a time, and read by anybody without a lock. */
#ifndef AB_PAGE_ROW_H
#define AB_PAGE_ROW_H

#include "base/addr.h"
#include "base/base.h"
#include "page/words.h"

/* What a request is doing, or waits for. The order is a part of the page's layout. */
#define AB_STATES(STATE)                                                                           \
  STATE(PROXY, "proxy")     /* since a proxy has noted its arrival, until its first byte */        \
  STATE(HEAD, "head")       /* from its first byte until its head was complete */                  \
  STATE(BODY, "body")       /* for its client's bytes */                                           \
  STATE(QUEUE, "queue")     /* to be taken */                                                      \
  STATE(RUN, "run")         /* runs, with Ruby's lock */                                           \
  STATE(SCHED, "sched")     /* what it waited for has come; for its turn */                        \
  STATE(GVL, "gvl")         /* it is its turn; for Ruby's lock */                                  \
  STATE(DB, "db")           /* for a descriptor whose peer is a database */                        \
  STATE(CACHE, "cache")     /* ... a cache, as Redis and memcached are */                          \
  STATE(HTTP, "http")       /* ... a server of HTTP */                                             \
  STATE(IO, "io")           /* ... anything else */                                                \
  STATE(POOL, "pool")       /* for a place in a pool of the application's */                       \
  STATE(LOCK, "lock")       /* for a Mutex, a Queue or another fiber */                            \
  STATE(SLEEP, "sleep")     /* for a time */                                                       \
  STATE(DNS, "dns")         /* for a name's address */                                             \
  STATE(DISK, "disk")       /* for a file */                                                       \
  STATE(PROCESS, "process") /* for a child process */                                              \
  STATE(OFFLOAD, "offload") /* for work that another thread does for it */                         \
  STATE(REQUIRE, "require") /* for a file that another fiber or thread loads */                    \
  STATE(DRAIN, "drain")     /* for its client to take the response */                              \
  STATE(GC, "gc")           /* would run, while Ruby collects garbage */

enum ab_state {
#define AB_STATE_NAME(name, text) AB_STATE_##name,
  AB_STATES(AB_STATE_NAME)
#undef AB_STATE_NAME
      AB_STATE_COUNT
};

/* The methods that figures tell apart. */
#define AB_ROW_METHODS(METHOD)                                                                     \
  METHOD(GET)                                                                                      \
  METHOD(HEAD)                                                                                     \
  METHOD(POST)                                                                                     \
  METHOD(PUT)                                                                                      \
  METHOD(DELETE)                                                                                   \
  METHOD(CONNECT)                                                                                  \
  METHOD(OPTIONS)                                                                                  \
  METHOD(TRACE)                                                                                    \
  METHOD(PATCH)                                                                                    \
  METHOD(QUERY)

enum ab_row_method {
  AB_ROW_METHOD_OTHER,
#define AB_ROW_METHOD_NAME(name) AB_ROW_METHOD_##name,
  AB_ROW_METHODS(AB_ROW_METHOD_NAME)
#undef AB_ROW_METHOD_NAME
      AB_ROW_METHOD_COUNT
};

#define AB_ROW_PATH  128
#define AB_ROW_WAITS 32
/* Waits that are shorter are only in the sums. */
#define AB_ROW_WAIT_MIN AB_NSEC_PER_MS

/* One of the last waits of a request. */
typedef struct ab_wait {
  uint32_t at;   /* microseconds after `began`, ... */
  uint32_t time; /* ... and how many it took; UINT32_MAX: that many or more */
  uint8_t state; /* enum ab_state */
  uint8_t family;
  uint16_t port;   /* of the peer that it has waited for, where that is known, ... */
  uint8_t peer[4]; /* ... and its address, of family 4 */
} ab_wait;

/* Whole cache lines. `seq` is odd while the row is being written. Times are monotonic. */
typedef struct ab_row {
  uint32_t seq;
  uint8_t state;     /* enum ab_state: now */
  uint8_t used;      /* 1: it is a request's */
  uint8_t mode;      /* enum ab_row_mode */
  uint8_t phase;     /* enum ab_row_phase */
  ab_nsec since;     /* when it came into that state */
  uint64_t id;       /* of the request: no other one of its process has had it */
  ab_nsec began;     /* its first instant: the sums begin here */
  ab_nsec taken;     /* when the application got it; 0: not yet */
  uint32_t touched;  /* set of states that it has been in, without the one now */
  uint32_t route;    /* its number among the slot's routes; UINT32_MAX: not known yet */
  uint16_t place;    /* the loop or thread that it runs on */
  uint16_t children; /* fibers that it has started and that have not ended */
  uint16_t status;   /* of its response; 0: none yet */
  uint8_t method;    /* enum ab_row_method */
  uint8_t path_len;
  uint32_t cpu;        /* microseconds that it has computed, where that is measured */
  uint32_t wait_count; /* how many of `waits` were written, in turns */

  uint64_t sums[AB_STATE_COUNT]; /* nanoseconds in each state, until `since` */

  ab_addr peer;      /* of its client, as the access log has it */
  ab_addr waits_for; /* of the descriptor that it waits for; family 0: not known */
  uint8_t trace[16]; /* the trace that it belongs to; all 0: none */
  uint64_t number;   /* of a kept row: how many were kept before it */
  uint8_t reason;    /* ... set of enum ab_kept_reason */
  uint8_t end;       /* ... enum ab_row_end */
  uint8_t sampled;   /* where it has a trace: somebody keeps that, ... */
  uint8_t reserved;
  uint8_t span[8];        /* ... and its span there */
  uint32_t stalls;        /* how often it has kept its loop for too long, and ... */
  uint64_t stall_time;    /* ... for how long, in nanoseconds */
  char path[AB_ROW_PATH]; /* without its query, cut off, not terminated */

  ab_wait waits[AB_ROW_WAITS];
} ab_row;

_Static_assert(sizeof(ab_wait) == 16, "a wait is short");
_Static_assert(offsetof(ab_row, sums) == 64 && offsetof(ab_row, path) == 320 &&
                   offsetof(ab_row, waits) == 448 && sizeof(ab_row) == 960,
               "rows fill cache lines");

enum ab_row_mode { AB_ROW_QUEUED, AB_ROW_FIBER, AB_ROW_THREAD, AB_ROW_GUEST };
enum ab_row_phase { AB_ROW_CALLED, AB_ROW_ANSWERS, AB_ROW_ANSWERED };

/* How a request has ended: by itself, or by whom. */
#define AB_ROW_END_KINDS(END)                                                                      \
  END(DONE, "done")         /* its response is complete */                                         \
  END(CLIENT, "client")     /* the client has gone, or has sent what is no body */                 \
  END(DEADLINE, "deadline") /* request_timeout has passed */                                       \
  END(SHUTDOWN, "shutdown") /* the server has stopped */                                           \
  END(OPERATOR, "operator") /* somebody has cancelled it */                                        \
  END(APP, "app")           /* the application has raised, or its response broke off */

enum ab_row_end {
#define AB_ROW_END_NAME(name, text) AB_ROW_END_##name,
  AB_ROW_END_KINDS(AB_ROW_END_NAME)
#undef AB_ROW_END_NAME
      AB_ROW_ENDS
};

#define AB_ROW_MODES  4
#define AB_ROW_PHASES 3
/* `route` before it is known. */
#define AB_ROW_NO_ROUTE UINT32_MAX

/* --- its numbers for the thread that writes it: whatever stands there, each is a known one --- */

static inline enum ab_state ab_row_state(const ab_row *row) {
  return (enum ab_state)ab_below(AB_GET(row->state), AB_STATE_COUNT, AB_STATE_RUN);
}

static inline enum ab_row_method ab_row_method(const ab_row *row) {
  unsigned method = ab_below(AB_GET(row->method), AB_ROW_METHOD_COUNT, AB_ROW_METHOD_OTHER);
  return (enum ab_row_method)method;
}

/* The states that it has been in. */
static inline uint32_t ab_row_touched(const ab_row *row) {
  return AB_GET(row->touched) & (uint32_t)((UINT64_C(1) << AB_STATE_COUNT) - 1);
}

static inline ab_view ab_row_path(const ab_row *row) {
  return (ab_view){row->path, ab_below(AB_GET(row->path_len), AB_ROW_PATH, AB_ROW_PATH)};
}

/* --- writing: one thread at a time --- */

/* Everything between these two is seen whole, or not at all. What is stored there goes by AB_PUT.
 */
static inline void ab_row_open(ab_row *row) {
  ab_seq_open(&row->seq);
}

static inline void ab_row_close(ab_row *row) {
  ab_seq_close(&row->seq);
}

/* What is known when a request begins. */
typedef struct ab_row_start {
  uint64_t id;
  ab_nsec began;
  enum ab_state state; /* at `began` */
  enum ab_row_mode mode;
  enum ab_row_method method;
  uint16_t place;
  const ab_addr *peer; /* copied; NULL: not known */
  ab_view path;        /* copied as far as it fits */
} ab_row_start;

/* The row is a request's from now on, with sums of 0 and nothing of the one before. What it did
 * before it got a row comes by turns at past times: ab_row_turn(row, AB_STATE_QUEUE, arrived), ...
 */
void ab_row_begin(ab_row *row, const ab_row_start *start);
/* It is no request's. What it was stays there until it begins again. */
static inline void ab_row_end(ab_row *row) {
  AB_PUT(row->used, 0);
}

/* Notes a wait of AB_ROW_WAIT_MIN or more. Within open and close. */
void ab__row_note_wait(ab_row *row, ab_nsec until);

/* Charges what has passed. Within open and close. */
static inline void ab__row_charge(ab_row *row, enum ab_state next, ab_nsec now) {
  ab_nsec since = row->since;
  enum ab_state state = ab_row_state(row);
  AB_PUT(row->touched, row->touched | 1u << state);
  if (AB_LIKELY(now > since)) {
    AB_PUT(row->sums[state], row->sums[state] + (now - since));
    if (AB_UNLIKELY(now - since >= AB_ROW_WAIT_MIN) && state != AB_STATE_RUN)
      ab__row_note_wait(row, now);
    AB_PUT(row->since, now);
  }
  AB_PUT(row->state, (uint8_t)next);
}

/* It is in another state from `now` on: what has passed is charged to the one that it was in. A
 * `now` before the last one counts as that. It waits for no peer. */
static inline void ab_row_turn(ab_row *row, enum ab_state state, ab_nsec now) {
  ab_row_open(row);
  ab__row_charge(row, state, now);
  AB_PUT(row->waits_for.family, 0);
  ab_row_close(row);
}

/* The same, and it waits for a descriptor with that peer. */
void ab_row_wait(ab_row *row, enum ab_state state, const ab_addr *peer, ab_nsec now);

/* Notes that the last `time` before its last turn was spent so. Within open and close. */
void ab__row_note_part(ab_row *row, enum ab_state state, ab_nsec time);

/* Of the time that is charged to `from`, `time` was spent in `to`, before its last turn. */
static inline void ab_row_shift(ab_row *row, enum ab_state from, enum ab_state to, ab_nsec time) {
  if (time > row->sums[from]) time = row->sums[from];
  ab_row_open(row);
  AB_PUT(row->sums[from], row->sums[from] - time);
  AB_PUT(row->sums[to], row->sums[to] + time);
  AB_PUT(row->touched, row->touched | 1u << to);
  if (time >= AB_ROW_WAIT_MIN) ab__row_note_part(row, to, time);
  ab_row_close(row);
}

/* A span of a trace. */
typedef struct ab_trace {
  uint8_t trace[16], span[8];
  bool sampled; /* it is kept */
} ab_trace;

/* It belongs to that trace: to none if that is all 0. */
void ab_row_set_trace(ab_row *row, const ab_trace *trace);
/* Is it in a trace that is kept? For the thread that writes it. */
static inline bool ab_row_is_traced(const ab_row *row) {
  uint64_t halves[2];
  memcpy(halves, row->trace, sizeof(halves));
  return (halves[0] | halves[1]) && row->sampled;
}

/* One word of what is neither state nor sum: AB_ROW_SET(row, status, 200). A reader sees it with
 * the next write, or before. */
#define AB_ROW_SET(row, field, value) AB_PUT((row)->field, (value))

/* What it has spent in each state until `now`. For the thread that writes it. */
void ab_row_times(const ab_row *row, ab_nsec now, uint64_t times[AB_STATE_COUNT]);

/* --- reading --- */

/* Copies the row; false if it is no request's, or is written all the time. Its numbers are within
 * their bounds, and its text is `path_len` bytes of anything. */
bool ab_row_load(const ab_row *row, ab_row *copy) AB_WARN_UNUSED;
/* The same, without its waits if they are not wanted: then what the copy has of them is undefined.
 */
bool ab_row_look(const ab_row *row, ab_row *copy, bool waits) AB_WARN_UNUSED;
/* The waits of a copy, the oldest first; returns how many. */
unsigned ab_row_waits(const ab_row *copy, ab_wait waits[AB_ROW_WAITS]);

/* "db", "run", ... */
const char *ab_state_name(enum ab_state state);
/* "fiber", ... */
const char *ab_row_mode_name(enum ab_row_mode mode);
/* "called", ... */
const char *ab_row_phase_name(enum ab_row_phase phase);
/* "done", ... */
const char *ab_row_end_name(enum ab_row_end end);
/* "GET", ...; "_OTHER" */
const char *ab_row_method_name(enum ab_row_method method);
/* The one of that name; AB_ROW_METHOD_OTHER for others. */
enum ab_row_method ab_row_method_of(const char *ptr, size_t len);

#endif
