/* The ledger of routes: see ledger.h. Routes of paths are in sets of a few places each, which a
 * keyed hash of the key chooses. The entries after them are the route of all others and those of
 * the rules. */
#include "engine/ledger.h"

#include <pthread.h>
#include <string.h>

#include "base/bits.h"

#define SEGMENTS    4
#define SEGMENT_MAX 24

#define SET_SIZE 4
#define SETS     (AB_LEDGER_ROUTES / SET_SIZE)
/* Places of a route after those of paths. */
#define OTHERS     AB_LEDGER_ROUTES
#define FIRST_RULE (OTHERS + 1)

/* Who finds no place lowers the claims of those that have one, each so many times: a flood of paths
 * does not drive out those that are used. What runs on threads has the stronger claim, because to
 * forget it costs the others their time once more. */
#define DECAY             16
#define CLAIM_MAX         256
#define CLAIM_PER_REQUEST 1
#define CLAIM_PROMOTED    16

/* A route that was on fibers for so many times what it had to behave for has nothing to make up
 * for. */
#define FORGIVEN 10

#define MOVES 32

typedef struct entry {
  uint64_t hash;
  uint64_t noted;    /* requests since it was moved last */
  uint32_t serial;   /* of the route that has the place; 0: none */
  uint32_t claim;    /* what the route has of it */
  uint32_t good;     /* requests in a row after which the p95 was low enough to go back */
  uint32_t patience; /* so many it takes */
  bool on_threads, was_away;
  uint8_t key_len;
  char key[AB_LEDGER_KEY_MAX];
  ab_window window;
} entry;

struct ab_ledger {
  const ab_mem *mem;
  ab_ledger_options options;
  const ab_path_rule *rules;
  size_t count; /* of entries */
  uint32_t serial;
  uint32_t misses[SETS]; /* of newcomers that found no place in the set */
  ab_ledger_stats stats;
  ab_route_info moves[MOVES];
  unsigned first_move, move_count;
  pthread_mutex_t lock; /* of what is read by who peeks: keys, serials, on_threads */
  entry entries[];
};

/* --- life --- */

/* A route begins, on fibers. */
static void begin(ab_ledger *ledger, entry *e) {
  e->serial = ++ledger->serial;
  if (e->serial == 0) e->serial = ledger->serial = 1;
  e->on_threads = e->was_away = false;
  e->noted = e->good = 0;
  e->patience = AB_LEDGER_PATIENCE;
  ab_window_begin(&e->window, ledger->options.threshold);
}

ab_ledger *ab_ledger_init(const ab_mem *mem, const ab_ledger_options *options,
                          const ab_path_rule *rules, size_t count) {
  size_t entries, size;
  if (!ab_add_size(count, FIRST_RULE, &entries) || !ab_mul_size(entries, sizeof(entry), &size) ||
      !ab_add_size(size, sizeof(ab_ledger), &size)) {
    return NULL;
  }
  ab_ledger *ledger = ab_alloc_zero(mem, size);
  if (!ledger) return NULL;
  ledger->mem = mem;
  ledger->options = *options;
  ledger->rules = rules;
  ledger->count = entries;
  pthread_mutex_init(&ledger->lock, NULL);
  for (size_t i = OTHERS; i < entries; i++) begin(ledger, &ledger->entries[i]);
  return ledger;
}

void ab_ledger_fini(ab_ledger *ledger) {
  if (!ledger) return;
  pthread_mutex_destroy(&ledger->lock);
  ab_free(ledger->mem, ledger);
}

/* --- names --- */

/* The end of the segment that begins at `at`; `plain` when it names something, and is not one of
 * many. */
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

size_t ab__ledger_key(ab_view path, char key[AB_LEDGER_KEY_MAX]) {
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

_Static_assert(1 + SEGMENTS * (SEGMENT_MAX + 1) + 1 <= AB_LEDGER_KEY_MAX, "the longest key");

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

uint64_t ab__ledger_hash(uint64_t seed, const char *key, size_t len) {
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

static void note_move(ab_ledger *ledger, size_t nth, enum ab_route_move move);

static ab_route route_of(const ab_ledger *ledger, size_t nth) {
  return (ab_route){(uint32_t)nth, ledger->entries[nth].serial};
}

static void use(entry *e) {
  uint32_t claim = e->claim + (e->on_threads ? CLAIM_PROMOTED : CLAIM_PER_REQUEST);
  uint32_t most = e->on_threads ? CLAIM_MAX * CLAIM_PROMOTED : CLAIM_MAX;
  e->claim = claim < most ? claim : most;
}

/* A place for a newcomer: a free one, or that of a route without a claim. */
static entry *place(ab_ledger *ledger, size_t set) {
  entry *first = &ledger->entries[set * SET_SIZE], *victim = NULL;
  for (entry *e = first; e < first + SET_SIZE; e++) {
    if (e->serial == 0) return e;
    if (e->claim == 0) victim = e;
  }
  if (!victim && ++ledger->misses[set] % DECAY == 0) {
    for (entry *e = first; e < first + SET_SIZE; e++) e->claim--;
  }
  if (victim && victim->on_threads) {
    note_move(ledger, (size_t)(victim - ledger->entries), AB_ROUTE_FORGOTTEN);
  }
  return victim;
}

/* A path's key, and the set that it is in. */
typedef struct sought {
  char key[AB_LEDGER_KEY_MAX];
  size_t len, set;
  uint64_t hash;
} sought;

static sought seek(const ab_ledger *ledger, ab_view path) {
  sought s;
  s.len = ab__ledger_key(path, s.key);
  s.hash = ab__ledger_hash(ledger->options.seed, s.key, s.len);
  s.set = s.hash % SETS;
  return s;
}

static entry *look_up(ab_ledger *ledger, const sought *s) {
  entry *e = &ledger->entries[s->set * SET_SIZE], *end = e + SET_SIZE;
  for (; e < end; e++) {
    if (e->hash != s->hash || e->serial == 0 || e->key_len != s->len) continue;
    if (memcmp(e->key, s->key, s->len) == 0) return e;
  }
  return NULL;
}

/* NULL when there is no place. Who peeks must not see half of it. */
static entry *add(ab_ledger *ledger, const sought *s) {
  pthread_mutex_lock(&ledger->lock);
  entry *e = place(ledger, s->set);
  if (e) {
    begin(ledger, e);
    e->hash = s->hash;
    e->key_len = (uint8_t)s->len;
    e->claim = 0;
    memcpy(e->key, s->key, s->len);
  }
  pthread_mutex_unlock(&ledger->lock);
  return e;
}

ab_route ab_ledger_path(ab_ledger *ledger, ab_view path) {
  sought s = seek(ledger, path);
  entry *e = look_up(ledger, &s);
  if (AB_UNLIKELY(!e)) e = add(ledger, &s);
  if (!e) return route_of(ledger, OTHERS);
  use(e);
  return route_of(ledger, (size_t)(e - ledger->entries));
}

ab_route ab_ledger_rule(const ab_ledger *ledger, size_t nth) {
  return route_of(ledger, FIRST_RULE + nth);
}

/* NULL when the route has lost its place. */
static entry *find(ab_ledger *ledger, ab_route route) {
  entry *e = &ledger->entries[route.nth];
  return route.serial != 0 && e->serial == route.serial ? e : NULL;
}

bool ab_ledger_on_threads(ab_ledger *ledger, ab_route route) {
  const entry *e = find(ledger, route);
  return e && e->on_threads;
}

static bool is_full(const ab_ledger *ledger, size_t set) {
  const entry *first = &ledger->entries[set * SET_SIZE];
  for (const entry *e = first; e < first + SET_SIZE; e++) {
    if (e->serial == 0) return false;
  }
  return true;
}

bool ab_ledger_peek(ab_ledger *ledger, ab_view path) {
  sought s = seek(ledger, path);
  pthread_mutex_lock(&ledger->lock);
  const entry *e = look_up(ledger, &s);
  if (!e && is_full(ledger, s.set)) e = &ledger->entries[OTHERS];
  bool on_threads = e && e->on_threads;
  pthread_mutex_unlock(&ledger->lock);
  return on_threads;
}

bool ab_ledger_peek_rule(ab_ledger *ledger, size_t nth) {
  pthread_mutex_lock(&ledger->lock);
  bool on_threads = ledger->entries[FIRST_RULE + nth].on_threads;
  pthread_mutex_unlock(&ledger->lock);
  return on_threads;
}

/* --- moving --- */

static void describe(const ab_ledger *ledger, size_t nth, ab_route_info *info) {
  const entry *e = &ledger->entries[nth];
  info->p95 = ab_window_p95(&e->window);
  info->count = e->window.count;
  info->move = AB_ROUTE_STAYS;
  info->name = (ab_view){info->octets, 0};
  if (nth >= FIRST_RULE) {
    info->name = ledger->rules[nth - FIRST_RULE].pattern;
  } else if (nth != OTHERS) {
    memcpy(info->octets, e->key, e->key_len);
    info->name.len = e->key_len;
  }
}

static void note_move(ab_ledger *ledger, size_t nth, enum ab_route_move move) {
  if (ledger->move_count == MOVES) {
    ledger->first_move = (ledger->first_move + 1) % MOVES;
    ledger->move_count--;
  }
  ab_route_info *info = &ledger->moves[(ledger->first_move + ledger->move_count++) % MOVES];
  describe(ledger, nth, info);
  info->move = move;
  *(move == AB_ROUTE_TO_THREADS ? &ledger->stats.promoted : &ledger->stats.demoted) += 1;
}

static void move(ab_ledger *ledger, entry *e, bool on_threads, ab_nsec limit) {
  pthread_mutex_lock(&ledger->lock);
  e->on_threads = on_threads;
  pthread_mutex_unlock(&ledger->lock);
  e->noted = e->good = 0;
  ab_window_begin(&e->window, limit);
}

/* Who comes back and has to go again at once, over and over, stays away for longer and longer. */
static uint32_t next_patience(const entry *e) {
  if (!e->was_away || e->noted >= (uint64_t)e->patience * FORGIVEN) return AB_LEDGER_PATIENCE;
  return e->patience < AB_LEDGER_PATIENCE_MAX ? e->patience * 2 : AB_LEDGER_PATIENCE_MAX;
}

static enum ab_route_move to_threads(ab_ledger *ledger, entry *e) {
  e->patience = next_patience(e);
  note_move(ledger, (size_t)(e - ledger->entries), AB_ROUTE_TO_THREADS);
  /* Half of it is the way back: between the two nothing moves. */
  move(ledger, e, true, ledger->options.threshold / 2);
  return AB_ROUTE_TO_THREADS;
}

static enum ab_route_move to_fibers(ab_ledger *ledger, entry *e) {
  note_move(ledger, (size_t)(e - ledger->entries), AB_ROUTE_TO_FIBERS);
  e->was_away = true;
  move(ledger, e, false, ledger->options.threshold);
  return AB_ROUTE_TO_FIBERS;
}

enum ab_route_move ab_ledger_note(ab_ledger *ledger, ab_route route, bool on_thread, ab_nsec time) {
  entry *e = find(ledger, route);
  /* One that began before the route was moved says nothing about where it is now. */
  if (!e || e->on_threads != on_thread) return AB_ROUTE_STAYS;
  e->noted++;
  ab_window_add(&e->window, time);
  bool exceeds = ab_window_exceeds(&e->window);
  if (!on_thread) {
    bool moves = AB_UNLIKELY(exceeds) && e->window.count >= ledger->options.least;
    return moves ? to_threads(ledger, e) : AB_ROUTE_STAYS;
  }
  e->good = exceeds ? 0 : e->good + 1;
  return e->good >= e->patience ? to_fibers(ledger, e) : AB_ROUTE_STAYS;
}

/* --- for the log and the figures --- */

bool ab_ledger_has_moves(const ab_ledger *ledger) {
  return ledger->move_count > 0;
}

static void copy_info(ab_route_info *to, const ab_route_info *from) {
  *to = *from;
  if (from->name.ptr == from->octets) to->name.ptr = to->octets;
}

bool ab_ledger_next_move(ab_ledger *ledger, ab_route_info *info) {
  if (ledger->move_count == 0) return false;
  copy_info(info, &ledger->moves[ledger->first_move]);
  ledger->first_move = (ledger->first_move + 1) % MOVES;
  ledger->move_count--;
  return true;
}

bool ab_ledger_next_promoted(const ab_ledger *ledger, size_t *nth, ab_route_info *info) {
  while (*nth < ledger->count) {
    size_t i = (*nth)++;
    if (ledger->entries[i].serial == 0 || !ledger->entries[i].on_threads) continue;
    describe(ledger, i, info);
    return true;
  }
  return false;
}

ab_ledger_stats ab_ledger_get_stats(const ab_ledger *ledger) {
  return ledger->stats;
}
