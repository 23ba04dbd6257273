/* Route statistics: what requests of each route usually compute, and how long they keep their loop.
 *
 * The first says how soon a request that waits has its turn (lead/gate.h). It is CPU time: time in
 * which others had the machine, or Ruby's lock, would make a route heavier the longer its requests
 * have to wait.
 *
 * The second says, in mode :hybrid, what the next requests run on. A route begins on fibers. It
 * goes to threads when the p95 of its last requests' longest stretches is above the threshold; and
 * back when they have behaved there for long enough, which takes twice as long each time that it
 * has to leave again soon.
 *
 * A route is a pattern of the configuration, or a path's first four segments, where those with a
 * digit or an escape and very long ones are all "*". Clients choose paths, so the number of such
 * routes is bounded: the least used gives way in time, and until then all newcomers are one route.
 *
 * It reads no clock. Any thread may call any function. */
#ifndef AB_ENGINE_ROUTE_STATS_H
#define AB_ENGINE_ROUTE_STATS_H

#include "base/mem.h"
#include "base/sliding_p95.h"
#include "http/pattern.h"
#include "lead/level.h"

/* Routes that are found in paths. */
#define AB_ROUTE_STATS_ROUTES 256
/* The longest key of one: four segments of 24 bytes, and a star for the rest. */
#define AB_ROUTE_STATS_KEY_MAX 104
/* The number of requests that have to behave before a route goes back for the first time, and the
 * maximum. */
#define AB_ROUTE_STATS_PATIENCE     100
#define AB_ROUTE_STATS_PATIENCE_MAX 6400

typedef struct ab_route_stats ab_route_stats;

typedef struct ab_route_stats_options {
  ab_nsec threshold; /* 0: no route ever goes to threads */
  unsigned least;    /* requests before a route may go to threads, 1 to AB_SLIDING_P95_SIZE */
  uint64_t seed;     /* secret */
} ab_route_stats_options;

/* A route during a request; all zero: none. It may be another's when the request ends. */
typedef struct ab_route {
  uint32_t nth, serial;
} ab_route;

/* Where a route was moved to. */
enum ab_route_move { AB_ROUTE_STAYS, AB_ROUTE_TO_THREADS, AB_ROUTE_TO_FIBERS, AB_ROUTE_FORGOTTEN };

typedef struct ab_route_info {
  ab_view name; /* empty: those without a place of their own */
  ab_nsec p95;
  unsigned count; /* requests in the p95 */
  enum ab_route_move move;
  char bytes[AB_ROUTE_STATS_KEY_MAX]; /* the name may be here */
} ab_route_info;

typedef struct ab_route_totals {
  uint64_t promoted, demoted; /* moves to threads, and back; to be forgotten is one, too */
} ab_route_totals;

/* `rules` are borrowed, and each may be a route. Returns NULL without memory. */
ab_route_stats *ab_route_stats_init(const ab_mem *mem, const ab_route_stats_options *options,
                                    const ab_path_rule *rules, size_t count);
void ab_route_stats_fini(ab_route_stats *route_stats);

/* The route of a path, as received and without its query: that of the first rule that it matches,
 * else its own. */
ab_route ab_route_stats_path(ab_route_stats *route_stats, ab_view path);
/* True if requests of the route run on threads. */
bool ab_route_stats_on_threads(ab_route_stats *route_stats, ab_route route);

/* True if a request for the path would run on threads now. It gives no route a place. */
bool ab_route_stats_peek(ab_route_stats *route_stats, ab_view path);

/* True once some route is above the lowest level: till then no request needs a route for its turn.
 */
bool ab_route_stats_weighs(const ab_route_stats *route_stats);
/* How often the level of any route has changed so far. */
uint32_t ab_route_stats_changes(const ab_route_stats *route_stats);
/* What a request computes, by those of its route; of a route that nothing is known of, by the
 * median request: clients choose paths, and must not jump the queue by it. */
typedef struct ab_route_weight {
  ab_nsec cost; /* 0 if no request has ended at all */
  uint8_t level;
  bool measured; /* it is to be charged: all but light ones of a route that is known, and one of
                  * AB_ROUTE_STATS_SAMPLE of these */
} ab_route_weight;
#define AB_ROUTE_STATS_SAMPLE 16

/* Finds the route first, as ab_route_stats_path, if *route is none and the path not empty. */
ab_route_weight ab_route_stats_weigh(ab_route_stats *route_stats, ab_route *route, ab_view path);
/* So many requests have ended before the first charge, and were light. */
void ab_route_stats_pass(ab_route_stats *route_stats, uint64_t count);
/* A request is over, which has computed for this time in all. */
void ab_route_stats_charge(ab_route_stats *route_stats, ab_route route, ab_nsec computed);
/* Once a second: heavy routes that nobody asks for become lighter, so that in the end no request
 * needs a route for its turn. */
void ab_route_stats_age(ab_route_stats *route_stats);

/* A request is over. `time`: how long it kept its loop at a stretch, at most; or, on a thread, how
 * long it computed. Returns whether that moved the route. */
enum ab_route_move ab_route_stats_note(ab_route_stats *route_stats, ab_route route, bool on_thread,
                                       ab_nsec time);

/* The oldest move that was not taken yet; false if there is none. Only the last 32 are kept. */
bool ab_route_stats_next_move(ab_route_stats *route_stats, ab_route_info *info);
bool ab_route_stats_has_moves(const ab_route_stats *route_stats);
/* The next route on threads from *nth on, which is advanced; false if there is none. */
bool ab_route_stats_next_promoted(ab_route_stats *route_stats, size_t *nth, ab_route_info *info);

/* Routes whose share of a load is told. */
#define AB_ROUTE_SHARES 3
/* What requests above the lowest level have computed. */
typedef struct ab_route_load {
  uint64_t requests;
  ab_nsec computed;
  struct {
    ab_nsec computed;
    ab_route_info route;
  } shares[AB_ROUTE_SHARES]; /* the largest first; 0: there is none */
} ab_route_load;

/* Since the last call. */
void ab_route_stats_take_load(ab_route_stats *route_stats, ab_route_load *load);
ab_route_totals ab_route_stats_get_totals(ab_route_stats *route_stats);

/* Writes what a path looks like; returns the length. */
size_t ab__route_stats_key(ab_view path, char key[AB_ROUTE_STATS_KEY_MAX]);
uint64_t ab__route_stats_hash(uint64_t seed, const char *key, size_t len);

#endif
