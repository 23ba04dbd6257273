/* Paths' routes are in sets of a few places each, chosen by a keyed hash of the key. The entries
 * after them are the route of all others and those of the rules. */
#include "engine/route_stats.h"

#include <pthread.h>
#include <string.h>

#include "base/bits.h"
#include "lead/level.h"

#define SEGMENTS    4
#define SEGMENT_MAX 24

#define SET_SIZE 4
#define SETS     (AB_ROUTE_STATS_ROUTES / SET_SIZE)
/* Places of a route after those of paths. */
#define OTHERS     AB_ROUTE_STATS_ROUTES
#define FIRST_RULE (OTHERS + 1)

/* A newcomer without a place lowers the claims of those that have one, each this many times: a
 * flood of paths does not drive out routes in use. Routes on threads have a stronger claim, because
 * forgetting them costs the other requests their time once more. */
#define DECAY             16
#define CLAIM_MAX         256
#define CLAIM_PER_REQUEST 1
#define CLAIM_PROMOTED    16

/* What a route costs rises slowly, since one request may have to load code, and falls fast. */
#define RISE 8
#define FALL 2
/* The cost of a heavy route that nobody asks for is halved after so many seconds. */
#define AGE 60
/* The median request costs more or less by this share of it, after each request. */
#define MEDIAN_STEP 16
#define MEDIAN_MIN  (AB_NSEC_PER_MS / 10)
/* So many requests before the first one that was measured say that most are light. */
#define LIGHT_BEFORE 10

/* A route on fibers for this many times as long as it had to behave has a clean record. */
#define FORGIVEN 10

#define ROUTE_STATS_MOVES 32

typedef struct entry {
  uint64_t hash;
  uint64_t noted;    /* requests since it was moved last */
  uint32_t serial;   /* of the route that has the place; 0: none */
  uint32_t claim;    /* what the route has of it */
  uint32_t good;     /* requests in a row after which the p95 was low enough to go back */
  uint32_t patience; /* how many it takes */
  ab_nsec cost;      /* what a request computes; 0: none has ended */
  uint8_t level;     /* of that */
  uint8_t unasked;   /* seconds since a request was charged, if it is above the lowest */
  uint32_t asked;    /* requests that were weighed, while it was the lowest */
  ab_nsec load;      /* what requests above the lowest level have computed since it was taken */
  bool on_threads, was_away;
  uint8_t key_len;
  char key[AB_ROUTE_STATS_KEY_MAX];
  ab_sliding_p95 window;
} entry;

struct ab_route_stats {
  const ab_mem *mem;
  ab_route_stats_options options;
  const ab_path_rule *rules;
  size_t count; /* of entries */
  uint32_t serial;
  uint32_t misses[SETS]; /* of newcomers that found no place in the set */
  ab_route_totals stats;
  ab_route_info moves[ROUTE_STATS_MOVES];
  unsigned first_move, move_count;
  uint64_t loaded; /* requests, and ... */
  ab_nsec load;    /* ... what they have computed, of all routes, as that of each */
  ab_nsec median;  /* what the median request computes */
  uint64_t passed; /* requests before the first one that was charged */
  bool charged;    /* one was */
  unsigned weighs; /* routes above the lowest level */
  uint32_t changes;
  pthread_mutex_t lock;
  entry entries[];
};

/* --- levels --- */

/* Requests of one route differ: by this margin they stay in one level, and none stands back behind
 * another that has merely taken a little less. */
static uint8_t level_of(ab_nsec cost) {
  return ab_level_of(cost + cost / 2);
}

/* Relaxed: both are read without the lock, where one that is out of date does no harm. */
static void set_level(ab_route_stats *route_stats, entry *e, uint8_t level) {
  if (AB_LIKELY(e->level == level)) return;
  unsigned weighs = route_stats->weighs + (level > 0) - (e->level > 0);
  __atomic_store_n(&route_stats->weighs, weighs, __ATOMIC_RELAXED);
  __atomic_store_n(&route_stats->changes, route_stats->changes + 1, __ATOMIC_RELAXED);
  e->level = level;
}

bool ab_route_stats_weighs(const ab_route_stats *route_stats) {
  return __atomic_load_n(&route_stats->weighs, __ATOMIC_RELAXED) > 0;
}

uint32_t ab_route_stats_changes(const ab_route_stats *route_stats) {
  return __atomic_load_n(&route_stats->changes, __ATOMIC_RELAXED);
}

/* --- life --- */

/* A route begins, on fibers. */
static void route_stats_begin(ab_route_stats *route_stats, entry *e) {
  set_level(route_stats, e, 0);
  e->cost = e->load = 0;
  e->asked = e->unasked = 0;
  e->serial = ++route_stats->serial;
  if (e->serial == 0) e->serial = route_stats->serial = 1;
  e->on_threads = e->was_away = false;
  e->noted = e->good = 0;
  e->patience = AB_ROUTE_STATS_PATIENCE;
  ab_sliding_p95_begin(&e->window, route_stats->options.threshold);
}

ab_route_stats *ab_route_stats_init(const ab_mem *mem, const ab_route_stats_options *options,
                                    const ab_path_rule *rules, size_t count) {
  size_t entries, size;
  if (!ab_add_size(count, FIRST_RULE, &entries) || !ab_mul_size(entries, sizeof(entry), &size) ||
      !ab_add_size(size, sizeof(ab_route_stats), &size)) {
    return NULL;
  }
  ab_route_stats *route_stats = ab_alloc_zero(mem, size);
  if (!route_stats) return NULL;
  route_stats->mem = mem;
  route_stats->options = *options;
  route_stats->rules = rules;
  route_stats->count = entries;
  pthread_mutex_init(&route_stats->lock, NULL);
  for (size_t i = OTHERS; i < entries; i++)
    route_stats_begin(route_stats, &route_stats->entries[i]);
  return route_stats;
}

void ab_route_stats_fini(ab_route_stats *route_stats) {
  if (!route_stats) return;
  pthread_mutex_destroy(&route_stats->lock);
  ab_free(route_stats->mem, route_stats);
}

/* --- names --- */

/* The end of the segment at `at`; `plain` if it is a name, and not one of many values. */
static size_t segment_end(ab_view path, size_t at, bool *plain) {
  size_t start = at;
  *plain = true;
  for (; at < path.len && path.ptr[at] != '/'; at++) {
    char c = path.ptr[at];
    if (c == '%' || (c >= '0' && c <= '9')) *plain = false;
  }
  if (at - start > SEGMENT_MAX) *plain = false;
  return at;
}

size_t ab__route_stats_key(ab_view path, char key[AB_ROUTE_STATS_KEY_MAX]) {
  size_t at = 0, len = 0;
  if (path.len > 0 && path.ptr[0] == '/') key[len++] = path.ptr[at++];
  for (unsigned i = 0; i < SEGMENTS && at < path.len; i++) {
    bool plain;
    size_t end = segment_end(path, at, &plain);
    if (plain) {
      memcpy(key + len, path.ptr + at, end - at);
      len += end - at;
    } else {
      key[len++] = '*';
    }
    at = end;
    if (at < path.len) key[len++] = path.ptr[at++]; /* the slash */
  }
  if (at < path.len) key[len++] = '*';
  return len;
}

_Static_assert(1 + SEGMENTS * (SEGMENT_MAX + 1) + 1 <= AB_ROUTE_STATS_KEY_MAX, "the longest key");

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

uint64_t ab__route_stats_hash(uint64_t seed, const char *key, size_t len) {
  uint64_t hash = mix(seed, len), word;
  size_t at = 0;
  for (; len - at >= sizeof(word); at += sizeof(word)) {
    memcpy(&word, key + at, sizeof(word));
    hash = mix(hash, word);
  }
  word = 0;
  memcpy(&word, key + at, len - at);
  return mix(mix(hash, word), seed);
}

/* --- places --- */

static void note_move(ab_route_stats *route_stats, size_t nth, enum ab_route_move move);

static ab_route route_of(const ab_route_stats *route_stats, size_t nth) {
  return (ab_route){(uint32_t)nth, route_stats->entries[nth].serial};
}

static void use(entry *e) {
  uint32_t claim = e->claim + (e->on_threads ? CLAIM_PROMOTED : CLAIM_PER_REQUEST);
  uint32_t most = e->on_threads ? CLAIM_MAX * CLAIM_PROMOTED : CLAIM_MAX;
  e->claim = claim < most ? claim : most;
}

/* A place for a newcomer: a free one, or that of a route without a claim. */
static entry *route_stats_place(ab_route_stats *route_stats, size_t set) {
  entry *first = &route_stats->entries[set * SET_SIZE], *victim = NULL;
  for (entry *e = first; e < first + SET_SIZE; e++) {
    if (e->serial == 0) return e;
    if (e->claim == 0) victim = e;
  }
  if (!victim && ++route_stats->misses[set] % DECAY == 0) {
    for (entry *e = first; e < first + SET_SIZE; e++) e->claim--;
  }
  if (victim && victim->on_threads) {
    note_move(route_stats, (size_t)(victim - route_stats->entries), AB_ROUTE_FORGOTTEN);
  }
  return victim;
}

/* A path's key, and the set that it is in. */
typedef struct sought {
  char key[AB_ROUTE_STATS_KEY_MAX];
  size_t len, set;
  uint64_t hash;
} sought;

static sought seek(const ab_route_stats *route_stats, ab_view path) {
  sought s;
  s.len = ab__route_stats_key(path, s.key);
  s.hash = ab__route_stats_hash(route_stats->options.seed, s.key, s.len);
  s.set = s.hash % SETS;
  return s;
}

static entry *look_up(ab_route_stats *route_stats, const sought *s) {
  entry *e = &route_stats->entries[s->set * SET_SIZE], *end = e + SET_SIZE;
  for (; e < end; e++) {
    if (e->hash != s->hash || e->serial == 0 || e->key_len != s->len) continue;
    if (memcmp(e->key, s->key, s->len) == 0) return e;
  }
  return NULL;
}

static entry *route_stats_add(ab_route_stats *route_stats, const sought *s) {
  entry *e = route_stats_place(route_stats, s->set);
  if (!e) return NULL;
  route_stats_begin(route_stats, e);
  e->hash = s->hash;
  e->key_len = (uint8_t)s->len;
  e->claim = 0;
  memcpy(e->key, s->key, s->len);
  return e;
}

/* That of the first rule which the path matches; NULL: none does. */
static entry *rule_of(ab_route_stats *route_stats, ab_view path) {
  const ab_path_rule *rules = route_stats->rules;
  const ab_path_rule *rule = ab_path_rule_find(rules, route_stats->count - FIRST_RULE, path);
  return rule ? &route_stats->entries[FIRST_RULE + (size_t)(rule - rules)] : NULL;
}

/* Locked. */
static ab_route route_of_path(ab_route_stats *route_stats, ab_view path) {
  entry *e = rule_of(route_stats, path);
  if (AB_LIKELY(!e)) {
    sought s = seek(route_stats, path);
    e = look_up(route_stats, &s);
    if (AB_UNLIKELY(!e)) e = route_stats_add(route_stats, &s);
  }
  if (AB_LIKELY(e != NULL)) use(e);
  return route_of(route_stats, e ? (size_t)(e - route_stats->entries) : OTHERS);
}

ab_route ab_route_stats_path(ab_route_stats *route_stats, ab_view path) {
  pthread_mutex_lock(&route_stats->lock);
  ab_route route = route_of_path(route_stats, path);
  pthread_mutex_unlock(&route_stats->lock);
  return route;
}

/* NULL if the route has lost its place. Locked. */
static entry *route_stats_find(ab_route_stats *route_stats, ab_route route) {
  entry *e = &route_stats->entries[route.nth];
  return route.serial != 0 && e->serial == route.serial ? e : NULL;
}

bool ab_route_stats_on_threads(ab_route_stats *route_stats, ab_route route) {
  pthread_mutex_lock(&route_stats->lock);
  const entry *e = route_stats_find(route_stats, route);
  bool on_threads = e && e->on_threads;
  pthread_mutex_unlock(&route_stats->lock);
  return on_threads;
}

static bool route_stats_is_full(const ab_route_stats *route_stats, size_t set) {
  const entry *first = &route_stats->entries[set * SET_SIZE];
  for (const entry *e = first; e < first + SET_SIZE; e++) {
    if (e->serial == 0) return false;
  }
  return true;
}

bool ab_route_stats_peek(ab_route_stats *route_stats, ab_view path) {
  pthread_mutex_lock(&route_stats->lock);
  const entry *e = rule_of(route_stats, path);
  if (!e) {
    sought s = seek(route_stats, path);
    e = look_up(route_stats, &s);
    if (!e && route_stats_is_full(route_stats, s.set)) e = &route_stats->entries[OTHERS];
  }
  bool on_threads = e && e->on_threads;
  pthread_mutex_unlock(&route_stats->lock);
  return on_threads;
}

/* --- costs --- */

/* NULL if nothing is known of its requests. Locked. */
static entry *known(ab_route_stats *route_stats, ab_route route) {
  entry *e = route_stats_find(route_stats, route);
  return e && e->cost > 0 && route.nth != OTHERS ? e : NULL;
}

ab_route_weight ab_route_stats_weigh(ab_route_stats *route_stats, ab_route *route, ab_view path) {
  pthread_mutex_lock(&route_stats->lock);
  if (route->serial == 0 && path.len > 0) *route = route_of_path(route_stats, path);
  entry *e = known(route_stats, *route);
  ab_nsec cost = e ? e->cost : route_stats->median;
  ab_route_weight weight = {cost, e ? e->level : level_of(cost), true};
  if (e && e->level == 0) weight.measured = e->asked++ % AB_ROUTE_STATS_SAMPLE == 0;
  pthread_mutex_unlock(&route_stats->lock);
  return weight;
}

void ab_route_stats_pass(ab_route_stats *route_stats, uint64_t count) {
  pthread_mutex_lock(&route_stats->lock);
  route_stats->passed = count;
  pthread_mutex_unlock(&route_stats->lock);
}

static void move_median(ab_route_stats *route_stats, ab_nsec cost) {
  ab_nsec median = route_stats->median, step = median / MEDIAN_STEP + MEDIAN_MIN;
  if (!route_stats->charged) {
    route_stats->median = route_stats->passed >= LIGHT_BEFORE ? MEDIAN_MIN : cost;
    route_stats->charged = true;
  } else if (cost > median) {
    route_stats->median = cost - median < step ? cost : median + step;
  } else {
    route_stats->median = median - cost < step ? cost : median - step;
  }
}

/* For how many requests one that is charged stands; in mode :hybrid all are measured. */
static unsigned stands_for(const ab_route_stats *route_stats, const entry *known) {
  bool sampled = known && known->level == 0 && route_stats->options.threshold == 0;
  return sampled ? AB_ROUTE_STATS_SAMPLE : 1;
}

static void add_load(ab_route_stats *route_stats, entry *e, ab_nsec computed) {
  route_stats->loaded++;
  route_stats->load += computed;
  if (e) e->load += computed;
}

void ab_route_stats_charge(ab_route_stats *route_stats, ab_route route, ab_nsec computed) {
  pthread_mutex_lock(&route_stats->lock);
  entry *e = route_stats_find(route_stats, route);
  for (unsigned i = stands_for(route_stats, known(route_stats, route)); i > 0; i--)
    move_median(route_stats, computed);
  if (e && e->cost == 0) {
    e->cost = computed;
  } else if (e && computed > e->cost) {
    e->cost += (computed - e->cost) / RISE;
  } else if (e) {
    e->cost -= (e->cost - computed) / FALL;
  }
  if (e && e->cost == 0) e->cost = 1; /* it is known */
  if (e) e->unasked = 0;
  if (ab_level_of(computed) > 0) add_load(route_stats, e, computed);
  if (e) set_level(route_stats, e, level_of(e->cost));
  pthread_mutex_unlock(&route_stats->lock);
}

void ab_route_stats_age(ab_route_stats *route_stats) {
  if (!ab_route_stats_weighs(route_stats)) return;
  pthread_mutex_lock(&route_stats->lock);
  for (entry *e = route_stats->entries; e < route_stats->entries + route_stats->count; e++) {
    if (e->level == 0 || ++e->unasked < AGE) continue;
    e->unasked = 0;
    e->cost /= 2;
    set_level(route_stats, e, level_of(e->cost));
  }
  pthread_mutex_unlock(&route_stats->lock);
}

/* --- moving --- */

static void route_stats_describe(const ab_route_stats *route_stats, size_t nth,
                                 ab_route_info *info) {
  const entry *e = &route_stats->entries[nth];
  info->p95 = ab_sliding_p95_p95(&e->window);
  info->count = e->window.count;
  info->move = AB_ROUTE_STAYS;
  info->name = (ab_view){info->bytes, 0};
  if (nth >= FIRST_RULE) {
    info->name = route_stats->rules[nth - FIRST_RULE].pattern;
  } else if (nth != OTHERS) {
    memcpy(info->bytes, e->key, e->key_len);
    info->name.len = e->key_len;
  }
}

static void note_move(ab_route_stats *route_stats, size_t nth, enum ab_route_move move) {
  if (route_stats->move_count == ROUTE_STATS_MOVES) {
    route_stats->first_move = (route_stats->first_move + 1) % ROUTE_STATS_MOVES;
    route_stats->move_count--;
  }
  ab_route_info *info =
      &route_stats
           ->moves[(route_stats->first_move + route_stats->move_count++) % ROUTE_STATS_MOVES];
  route_stats_describe(route_stats, nth, info);
  info->move = move;
  *(move == AB_ROUTE_TO_THREADS ? &route_stats->stats.promoted : &route_stats->stats.demoted) += 1;
}

static void move(entry *e, bool on_threads, ab_nsec limit) {
  e->on_threads = on_threads;
  e->noted = e->good = 0;
  ab_sliding_p95_begin(&e->window, limit);
}

/* A route that has to leave again at once, over and over, stays away for longer each time. */
static uint32_t next_patience(const entry *e) {
  if (!e->was_away || e->noted >= (uint64_t)e->patience * FORGIVEN) return AB_ROUTE_STATS_PATIENCE;
  return e->patience < AB_ROUTE_STATS_PATIENCE_MAX ? e->patience * 2 : AB_ROUTE_STATS_PATIENCE_MAX;
}

static enum ab_route_move to_threads(ab_route_stats *route_stats, entry *e) {
  e->patience = next_patience(e);
  note_move(route_stats, (size_t)(e - route_stats->entries), AB_ROUTE_TO_THREADS);
  /* Half of it is the way back: between the two the route does not move. */
  move(e, true, route_stats->options.threshold / 2);
  return AB_ROUTE_TO_THREADS;
}

static enum ab_route_move to_fibers(ab_route_stats *route_stats, entry *e) {
  note_move(route_stats, (size_t)(e - route_stats->entries), AB_ROUTE_TO_FIBERS);
  e->was_away = true;
  move(e, false, route_stats->options.threshold);
  return AB_ROUTE_TO_FIBERS;
}

static enum ab_route_move note(ab_route_stats *route_stats, ab_route route, bool on_thread,
                               ab_nsec time) {
  entry *e = route_stats_find(route_stats, route);
  /* A request that began before the route was moved says nothing about the present. */
  if (!e || e->on_threads != on_thread) return AB_ROUTE_STAYS;
  e->noted++;
  ab_sliding_p95_add(&e->window, time);
  bool exceeds = ab_sliding_p95_exceeds(&e->window);
  if (!on_thread) {
    bool moves = AB_UNLIKELY(exceeds) && route_stats->options.threshold > 0 &&
                 e->window.count >= route_stats->options.least;
    return moves ? to_threads(route_stats, e) : AB_ROUTE_STAYS;
  }
  e->good = exceeds ? 0 : e->good + 1;
  return e->good >= e->patience ? to_fibers(route_stats, e) : AB_ROUTE_STAYS;
}

enum ab_route_move ab_route_stats_note(ab_route_stats *route_stats, ab_route route, bool on_thread,
                                       ab_nsec time) {
  pthread_mutex_lock(&route_stats->lock);
  enum ab_route_move move = note(route_stats, route, on_thread, time);
  pthread_mutex_unlock(&route_stats->lock);
  return move;
}

/* --- for the log and the figures --- */

/* Relaxed: a move that was missed is told the next time. */
bool ab_route_stats_has_moves(const ab_route_stats *route_stats) {
  return __atomic_load_n(&route_stats->move_count, __ATOMIC_RELAXED) > 0;
}

static void copy_info(ab_route_info *to, const ab_route_info *from) {
  *to = *from;
  if (from->name.ptr == from->bytes) to->name.ptr = to->bytes;
}

bool ab_route_stats_next_move(ab_route_stats *route_stats, ab_route_info *info) {
  pthread_mutex_lock(&route_stats->lock);
  bool found = route_stats->move_count > 0;
  if (found) {
    copy_info(info, &route_stats->moves[route_stats->first_move]);
    route_stats->first_move = (route_stats->first_move + 1) % ROUTE_STATS_MOVES;
    route_stats->move_count--;
  }
  pthread_mutex_unlock(&route_stats->lock);
  return found;
}

bool ab_route_stats_next_promoted(ab_route_stats *route_stats, size_t *nth, ab_route_info *info) {
  bool found = false;
  pthread_mutex_lock(&route_stats->lock);
  while (!found && *nth < route_stats->count) {
    size_t i = (*nth)++;
    found = route_stats->entries[i].serial != 0 && route_stats->entries[i].on_threads;
    if (found) route_stats_describe(route_stats, i, info);
  }
  pthread_mutex_unlock(&route_stats->lock);
  return found;
}

/* Its place among the largest shares; AB_ROUTE_SHARES: none. */
static size_t place_of(const ab_route_load *load, ab_nsec computed) {
  size_t place = 0;
  while (place < AB_ROUTE_SHARES && load->shares[place].computed >= computed) place++;
  return place;
}

static void add_share(const ab_route_stats *route_stats, size_t nth, ab_route_load *load) {
  ab_nsec computed = route_stats->entries[nth].load;
  size_t place = place_of(load, computed);
  if (computed == 0 || place == AB_ROUTE_SHARES) return;
  for (size_t i = AB_ROUTE_SHARES - 1; i > place; i--) {
    load->shares[i].computed = load->shares[i - 1].computed;
    copy_info(&load->shares[i].route, &load->shares[i - 1].route);
  }
  load->shares[place].computed = computed;
  route_stats_describe(route_stats, nth, &load->shares[place].route);
}

void ab_route_stats_take_load(ab_route_stats *route_stats, ab_route_load *load) {
  *load = (ab_route_load){0};
  pthread_mutex_lock(&route_stats->lock);
  load->requests = route_stats->loaded;
  load->computed = route_stats->load;
  for (size_t i = 0; i < route_stats->count; i++) {
    add_share(route_stats, i, load);
    route_stats->entries[i].load = 0;
  }
  route_stats->loaded = route_stats->load = 0;
  pthread_mutex_unlock(&route_stats->lock);
}

ab_route_totals ab_route_stats_get_totals(ab_route_stats *route_stats) {
  pthread_mutex_lock(&route_stats->lock);
  ab_route_totals totals = route_stats->stats;
  pthread_mutex_unlock(&route_stats->lock);
  return totals;
}
