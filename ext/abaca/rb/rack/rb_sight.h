/* What the page shows of requests: each has a row while the application has it, and is counted by
 * route, method and status when it has ended. Written with the GVL; a row also by the thread that
 * runs its request and waits for the GVL.
 *
 * A call keeps its row when its request is over, and the next request has it. Most requests are
 * *plain*: a GET that came at once, without anything to be told of it, that runs to its end without
 * a wait, is quick, and is answered in one piece with 2xx or 3xx. Their
 * way is page/row_taken.h at the beginning, and end_plain in rb_sight_end.c. */
#ifndef AB_RB_SIGHT_H
#define AB_RB_SIGHT_H

#include "http/pattern.h"
#include "page/opens.h"
#include "page/page.h"
#include "page/rows.h"
#include "rb/rack/rb_serve.h"

/* What is asked of an env for the name of its route. */
#define AB_SIGHT_KEYS 4

/* The view that a server has of its slot in the page, while it runs. */
typedef struct ab_sight {
  ab_page_parts parts;
  ab_rows rows;                /* of the requests in the application */
  ab_rows queued;              /* ... of those that wait; the engine's */
  ab_nsec slow_after;          /* a request that takes longer is kept; 0: none is for that */
  ab_nsec stall_after;         /* a loop that makes no turn for so long has stalled; 0: never */
  const ab_path_rule *ignored; /* lent: paths of requests that no series counts */
  size_t ignored_count;
  uint32_t sampled; /* requests since one was kept as a sample */
  bool plain;       /* some of its requests may be */
  ab_nsec quick;    /* ... that take less than this */
  /* The series of the last request, which is mostly that of the next one; ... */
  ab_series_key last_key;
  ab_series *last_series;
  /* ... and that of GETs without a route that had this status; 0: not known yet. */
  int plain_status;
  ab_series *plain_series;
  ab_page_routes routes;
  ab_series_table series;
  ab_page_clients clients;
  ab_opens *opens; /* guarded by the engine's lock; NULL: there was no memory */
  VALUE keys[AB_SIGHT_KEYS];
} ab_sight;

/* Over a slot that this process has claimed. AB_OK or AB_ENOMEM. */
int ab_sight_open(ab_rack *rack, const ab_page_parts *parts,
                  const ab_sight *options) AB_WARN_UNUSED;
/* The page shows nothing any more, also not of the calls that there are. */
void ab_sight_close(ab_rack *rack);
/* Nothing is written: what runs is freed at the end of the process, or in a forked child. */
void ab_sight_forget(ab_rack *rack);
void ab_sight_mark(const ab_rack *rack);

/* May a request be plain, as far as it shows before the application has it? */
bool ab_sight_takes_plain(const ab_rack *rack, const ab_exchange *exchange,
                          const ab_request *request);
/* The request of a call that has just begun, at `now`, gets its row, if there is one for it. */
void ab_sight_begin(ab_call *call, const ab_taken *taken, ab_nsec now);
/* Has it taken too long by now, or failed: was it answered 5xx, or not to its end? For a call with
 * a row. */
bool ab_sight_is_slow(const ab_call *call, ab_nsec now);
bool ab_sight_has_failed(const ab_call *call);
/* The last of so many bytes of content are about to leave, for a call with a row: it is counted
 * before that, so that no answer is missing when the process is killed. If nothing comes behind
 * them, it is over for the page. What calls the application then is counted when that is done. */
void ab_sight_replies(ab_call *call, uint64_t bytes);
/* There was no memory for what ab_sight_replies may have counted: then the request has failed, and
 * whatever it is answered now is not counted again. Its time stays with the application's status,
 * since no counter falls. */
void ab_sight_unsent(const ab_call *call);
/* It is over, for a call with a row. Its last turn has been charged. */
void ab_sight_end(ab_call *call);
/* Sets the route in the rows of requests in flight, where it is known by now. Called each second,
 * with the GVL. */
void ab_sight_show_routes(const ab_rack *rack);

/* Its own row is anybody's again. */
void ab_sight_give_row(ab_sight *sight, ab_call *call);
/* Has it found no row, though others have one? */
static inline bool ab_sight_is_short(const ab_rack *rack, const ab_call *call) {
  return rack->sight && !call->own_row && rack->sight->rows.count > 0;
}

/* The head of its response is sent. */
static inline void ab_sight_answers(const ab_call *call) {
  if (!call->row) return;
  AB_ROW_SET(call->row, status, (uint16_t)call->status);
  AB_ROW_SET(call->row, phase, AB_ROW_ANSWERS);
}

/* The application has been called, and its response taken. */
static inline void ab_sight_answered(const ab_call *call) {
  if (call->row) AB_ROW_SET(call->row, phase, AB_ROW_ANSWERED);
}

/* A wait in that state has ended. */
void ab_sight_waited(ab_sight *sight, enum ab_state state, ab_nsec time);

/* A thread of the pool has waited so long for the GVL. */
void ab_sight_had_gvl(ab_sight *sight, ab_nsec time);
/* A loop has made no turn for so long. */
void ab_sight_stalled(ab_sight *sight, ab_nsec time);

/* Something has happened to the request `id`, in `time`; 0: not known. */
void ab_sight_note(const ab_rack *rack, enum ab_page_event_kind kind, uint64_t id, ab_nsec time,
                   const char *text);

/* --- where no loop knows it: on threads, and on fibers of other schedulers --- */

/* It begins to run. */
void ab_sight_runs(ab_call *call, ab_nsec now);
/* Its row, which it has, turns. Collections are told apart. */
void ab_sight_turn(ab_call *call, enum ab_state state, const ab_addr *peer, ab_nsec now);
/* The app says what it waits for; AB_STATE_COUNT: no longer. */
void ab_sight_say(ab_call *call, uint8_t said);
/* The request waits, on its own thread or fiber. Returns what is to be given to the second one. */
uint8_t ab_sight_wait(ab_call *call, enum ab_state state, const ab_addr *peer);
void ab_sight_go_on(ab_call *call, uint8_t before);

#endif
