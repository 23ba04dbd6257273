/* The ledger: how long the requests of each route keep their loop, and so on what the next ones
 * shall run. A route begins on fibers. It goes to threads when, of its last requests, the p95 of
 * the time for which each kept its loop at a stretch is above the threshold; and back when they
 * have behaved there for long enough. Each time that it has to go again soon after it came back,
 * that takes twice as long.
 *
 * A route is a pattern of the configuration; or what a path looks like: its first four segments,
 * where those with a digit or an escape in them and very long ones are all the same, "*". Clients
 * choose paths, so the number of such routes is bounded. When there is no room for another one, the
 * least used gives way in time, and until then all newcomers are one route.
 *
 * It reads no clock. Its owner serializes; only the two functions that peek may be called by any
 * thread.
 */
#ifndef AB_ENGINE_LEDGER_H
#define AB_ENGINE_LEDGER_H

#include "base/mem.h"
#include "base/window.h"
#include "http1/pattern.h"

/* Routes that are found in paths. */
#define AB_LEDGER_ROUTES 256
/* The longest key of one: four segments of 24 octets, and a star for the rest. */
#define AB_LEDGER_KEY_MAX 104
/* So many requests have to behave before a route goes back for the first time, and at the most. */
#define AB_LEDGER_PATIENCE     100
#define AB_LEDGER_PATIENCE_MAX 6400

typedef struct ab_ledger ab_ledger;

typedef struct ab_ledger_options {
  ab_nsec threshold; /* above zero */
  unsigned least;    /* requests before a route may go to threads, 1 to AB_WINDOW_SIZE */
  uint64_t seed;     /* nobody else shall know it */
} ab_ledger_options;

/* A route for the time of a request; all zero: none. The route may be another's when the request
 * ends. */
typedef struct ab_route {
  uint32_t nth, serial;
} ab_route;

/* Where a route was moved to. */
enum ab_route_move { AB_ROUTE_STAYS, AB_ROUTE_TO_THREADS, AB_ROUTE_TO_FIBERS, AB_ROUTE_FORGOTTEN };

typedef struct ab_route_info {
  ab_view name; /* empty: those without a place of their own */
  ab_nsec p95;
  unsigned count; /* requests that it is the p95 of */
  enum ab_route_move move;
  char octets[AB_LEDGER_KEY_MAX]; /* the name may be here */
} ab_route_info;

typedef struct ab_ledger_stats {
  uint64_t promoted, demoted; /* moves to threads, and back; to be forgotten is one, too */
} ab_ledger_stats;

/* `rules` are borrowed, and each may be a route. Returns NULL without memory. */
ab_ledger *ab_ledger_init(const ab_mem *mem, const ab_ledger_options *options,
                          const ab_path_rule *rules, size_t count);
void ab_ledger_fini(ab_ledger *ledger);

/* The route of a path, as received and without its query. */
ab_route ab_ledger_path(ab_ledger *ledger, ab_view path);
/* The route of the nth rule. */
ab_route ab_ledger_rule(const ab_ledger *ledger, size_t nth);
/* True when requests of the route shall run on threads. */
bool ab_ledger_on_threads(ab_ledger *ledger, ab_route route);

/* The same without a route: whether a request for the path, or of the rule, would run on threads
 * now. Any thread may ask. */
bool ab_ledger_peek(ab_ledger *ledger, ab_view path);
bool ab_ledger_peek_rule(ab_ledger *ledger, size_t nth);

/* A request is over. `time`: for how long it kept its loop at a stretch, at the most; or, if it ran
 * on a thread, for how long it computed. Says whether the route was moved by that. */
enum ab_route_move ab_ledger_note(ab_ledger *ledger, ab_route route, bool on_thread, ab_nsec time);

/* The oldest move that was not taken yet; false when there is none. Only the last 32 are kept. */
bool ab_ledger_next_move(ab_ledger *ledger, ab_route_info *info);
bool ab_ledger_has_moves(const ab_ledger *ledger);
/* The next route on threads from *nth on, which is counted up; false when there is none. */
bool ab_ledger_next_promoted(const ab_ledger *ledger, size_t *nth, ab_route_info *info);
ab_ledger_stats ab_ledger_get_stats(const ab_ledger *ledger);

/* Writes what a path looks like; returns the length. */
size_t ab__ledger_key(ab_view path, char key[AB_LEDGER_KEY_MAX]);
uint64_t ab__ledger_hash(uint64_t seed, const char *key, size_t len);

#endif
