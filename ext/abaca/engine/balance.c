/* What a worker does with regard to its siblings: see balance.h. */
#include "engine/balance.h"

#include "engine/move.h"

/* A worker turns each second, for its heartbeat: one that has not for this time stands still. */
#define STANDS_STILL (2500 * AB_NSEC_PER_MS)
/* A peak of pressure fades to nothing in this time. */
#define FADE (100 * AB_NSEC_PER_MS)
/* Looks of a worker that is shut, AB_LOOK apart, that believe the page. */
#define TRUSTING_LOOKS 100
/* How often the kernel may tell a worker of connections before it is the last one to be told. */
#define TURNS_IN_FRONT 4
/* The least time between two measures of pressure. */
#define SAMPLE AB_NSEC_PER_MS
/* A request that waits, in the unit of pressure; the most that are counted. */
#define ONE  16u
#define MOST 1024u
/* A worker that is full and has taken no request for this time does not get on. */
#define GETS_ON (20 * AB_NSEC_PER_MS)
/* So many measures in a row have to agree that another worker has less to do. */
#define AGREE 2
/* Connections that one turn gives away, or takes. */
#define BALANCE_MOVES 32u
/* Between two times at which a worker that has room gives some away: what has gone is seen then. */
#define GIVE_AGAIN FADE
/* After the worker had to take back what it gave away. */
#define OFFER_AGAIN (100 * AB_NSEC_PER_MS)

/* --- life --- */

static void relay_ready(ab_watch *watch, uint32_t events AB_UNUSED) {
  AB_CONTAINER_OF(watch, ab_balance, watch)->called = true;
}

int ab_engine_join(ab_engine *engine, const ab_siblings *siblings) {
  const int *relay = siblings->moves ? ab_page_relay(siblings->page) : NULL;
  ab_balance *balance = ab_alloc_zero(&engine->mem, sizeof(*balance));
  if (!balance) return AB_ENOMEM;
  *balance = (ab_balance){
      .siblings = *siblings,
      .watch = {.ready = relay_ready, .fd = relay ? relay[0] : -1, .roams = true},
      .relay = relay ? relay[1] : -1,
  };
  ab_engine_lock(engine);
  engine->balance = balance;
  ab__engine_listen(engine); /* in another way than before */
  ab_engine_unlock(engine);
  return AB_OK;
}

void ab_engine_part(ab_engine *engine) {
  ab_free(&engine->mem, engine->balance);
  engine->balance = NULL;
}

bool ab_engine_has_siblings(const ab_engine *engine) {
  return engine->balance != NULL;
}

/* --- the page --- */

static void set_peak(ab_engine *engine, uint32_t peak) {
  engine->balance->peak = peak;
  engine->balance->peaked = engine->now;
  AB_SHOW(engine, pressure, peak);
}

static uint32_t fade(uint32_t peak, ab_nsec age) {
  if (age >= FADE) return 0;
  return (uint32_t)(peak * (uint64_t)(FADE - age) / FADE);
}

/* What comes during a turn is seen by the next one, so it lasts for as long as a turn does. */
static uint32_t peak_now(const ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  ab_nsec age = engine->now - balance->peaked;
  return age > balance->turn_time ? fade(balance->peak, age - balance->turn_time) : balance->peak;
}

static bool is_shut(const ab_engine *engine) {
  return engine->paused || engine->withheld;
}

void ab__balance_note(ab_engine *engine) {
  AB_SHOW(engine, shut, is_shut(engine));
  engine->balance->looks = 0;
  if (engine->paused) engine->look_at = engine->now + AB_LOOK;
}

/* What there is to know of the siblings that serve. */
typedef struct survey {
  bool serves;             /* one does */
  bool shut;               /* one takes none, or stands still */
  uint32_t room;           /* how many take connections */
  uint32_t least, busiest; /* of these: peaks of pressure, */
  uint64_t sum;            /* ... and of all together */
} survey;

static void count_in(survey *survey, const ab_page_glance *other, ab_nsec now) {
  if (other->state != AB_PAGE_SERVING) return;
  survey->serves = true;
  if (other->shut || other->turned + STANDS_STILL <= now) {
    survey->shut = true;
    return;
  }
  /* One that has work measures when it comes to it, however long that takes. */
  ab_nsec age = other->rests && now > other->turned ? now - other->turned : 0;
  uint32_t peak = fade(other->pressure < MOST * ONE ? other->pressure : MOST * ONE, age);
  if (survey->room == 0 || peak < survey->least) survey->least = peak;
  if (peak > survey->busiest) survey->busiest = peak;
  survey->sum += peak;
  survey->room++;
}

static survey look_around(const ab_engine *engine) {
  const ab_siblings *siblings = &engine->balance->siblings;
  survey found = {0};
  for (uint32_t i = 0; i < ab_page_size(siblings->page); i++) {
    if (i == siblings->own) continue;
    ab_page_glance other = ab_page_glance_at(ab_page_slot_of(siblings->page, i));
    count_in(&found, &other, engine->now);
  }
  return found;
}

bool ab__balance_leaves(ab_engine *engine) {
  return ++engine->balance->looks % TRUSTING_LOOKS != 0 && look_around(engine).room > 0;
}

/* What each would have if all had the same. */
static uint32_t even_share(const survey *others, uint32_t own) {
  return (uint32_t)((others->sum + own) / (others->room + 1));
}

/* --- new connections --- */

void ab__balance_stand_back(ab_service *service) {
  if (++service->told % TURNS_IN_FRONT != 0) return;
  /* Without memory it stays mute until the next look (look_at_all). */
  if (ab_poller_set(service->engine->poller, &service->watch, AB_POLL_IN | AB_POLL_EXCLUSIVE))
    service->budget = 0;
}

/* The kernel wakes one worker for a connection. If that is killed or stopped before it accepts,
 * nobody is woken again. */
static void look_at_all(ab_engine *engine) {
  engine->balance->looked = engine->now;
  ab__engine_listen(engine);
  ab__services_invite(engine, 1);
  if (engine->balance->watch.events) engine->balance->called = true;
}

/* --- pressure --- */

/* No more than MOST. */
static uint64_t add_length(uint64_t count, const ab_list *head) {
  const ab_list *node = head->next;
  for (; node != head && count < MOST; node = node->next) count++;
  return count < MOST ? count : MOST;
}

/* Requests that wait for the engine, for a place, and, where they compute, in the application. */
static uint32_t waiting_now(const ab_engine *engine) {
  const ab_figures *stats = &engine->own_stats;
  uint64_t count = stats->waiting - stats->held;
  if (engine->balance->siblings.computes) count += ab__engine_taken(engine);
  count = add_length(count, &engine->batch);
  count = add_length(count, &engine->later);
  return (uint32_t)add_length(count, &engine->app_later);
}

/* How many wait changes from turn to turn, the more so the more connections are busy. What is
 * certain lies between the pressure, which rises slowly, since many requests at once may be over
 * soon, and falls at once, and the peak, which is reached at once and fades. */
static void sample(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  uint32_t now = waiting_now(engine) * ONE, before = balance->pressure;
  if (balance->requests != engine->taken) balance->got_on = balance->sampled;
  balance->requests = engine->taken;
  balance->sampled = engine->now;
  bool rises = now > before && !is_shut(engine);
  balance->pressure = rises ? before + (now - before + 3) / 4 : now;
  if (now >= peak_now(engine)) set_peak(engine, now);
}

void ab__balance_rest(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  bool works = balance->siblings.computes && engine->own_stats.in_app > 0;
  if (works) return;
  balance->rests = true;
  AB_PUT(engine->stats->rests, 1);
}

/* --- giving connections away --- */

/* Until then the relay is left to others. */
static void stand_aside(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  balance->return_at = engine->now + AB_LOOK;
  ab__balance_listen(engine, true);
}

static bool give(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  ab_balance *balance = engine->balance;
  int err = ab__conn_move(conn, balance->relay);
  if (err == AB_AGAIN) balance->offer_at = engine->now + AB_LOOK; /* the relay is full */
  if (err == AB_OK) balance->given++;
  return err != AB_AGAIN; /* one that cannot go stays, and the next one may */
}

/* Requests that wait for a place, oldest first. Returns how many may still go. */
static uint32_t give_requests(ab_engine *engine, uint32_t count) {
  ab_list_each (node, next, &engine->requests) {
    ab_conn *conn = AB_CONTAINER_OF(node, ab_exchange, event_link)->conn;
    if (count == 0) break;
    if (!ab__conn_can_move(conn)) continue;
    if (!give(conn)) return 0;
    count--;
  }
  return count;
}

/* Connections on which something has come that was not read yet, the last ones of the turn first.
 */
static void give_ready(ab_engine *engine, uint32_t count) {
  for (ab_list *node = engine->batch.prev, *next; node != &engine->batch && count > 0;
       node = next) {
    ab_conn *conn = AB_CONTAINER_OF(node, ab_conn, ready_link);
    next = node->prev;
    if (conn->state != AB_CONN_HEAD || !ab__conn_can_move(conn)) continue;
    if (!give(conn)) return;
    count--;
  }
}

/* Even when little waits here, and much there, one of the others has at most half as much. */
static bool has_more(const ab_engine *engine, const survey *others) {
  uint32_t own = engine->balance->pressure;
  return others->room > 0 && own >= 2 * ONE && own >= 2 * (uint64_t)others->least;
}

static uint32_t surplus(const survey *others, uint32_t own) {
  uint32_t share = even_share(others, own), count = own > share ? (own - share) / ONE : 0;
  return count < BALANCE_MOVES ? count : BALANCE_MOVES;
}

/* Of a worker with room, which may have less to do in a moment. */
static uint32_t may_give_some(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  survey others = look_around(engine);
  balance->agree = has_more(engine, &others) ? balance->agree + 1 : 0;
  if (balance->agree < AGREE) return 0;
  balance->agree = 0;
  return surplus(&others, peak_now(engine));
}

/* Of one that is shut: what waits, waits for nothing but others, unless it is served soon. */
static uint32_t may_give_all(const ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  survey others = look_around(engine);
  if (others.room == 0) return 0;
  bool gets_on = engine->now - balance->got_on < GETS_ON;
  return gets_on ? surplus(&others, balance->pressure + ONE - 1) : BALANCE_MOVES;
}

static uint32_t may_give(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  bool shut = is_shut(engine), enough = balance->pressure >= (shut ? ONE : 2 * ONE);
  if (enough && !engine->draining && engine->now >= balance->offer_at)
    return shut ? may_give_all(engine) : may_give_some(engine);
  balance->agree = 0;
  return 0;
}

static void offer(ab_engine *engine) {
  uint32_t count = may_give(engine);
  if (count == 0) return;
  uint64_t before = engine->balance->given;
  give_ready(engine, give_requests(engine, count));
  if (engine->balance->given == before) return;
  stand_aside(engine);
  if (!is_shut(engine)) engine->balance->offer_at = engine->now + GIVE_AGAIN;
}

void ab__balance_measure(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  if (balance->watch.fd < 0 || engine->now - balance->sampled < SAMPLE) return;
  sample(engine);
  offer(engine);
}

/* --- taking connections --- */

void ab__balance_listen(ab_engine *engine, bool listen) {
  ab_balance *balance = engine->balance;
  if (balance->watch.fd < 0) return;
  uint32_t events = AB_POLL_IN | AB_POLL_EXCLUSIVE;
  if (!listen || balance->return_at || is_shut(engine)) {
    balance->budget = 0;
    balance->called = false;
    ab_poller_unset(engine->poller, &balance->watch, false);
  } else if (balance->watch.events != events) {
    /* Without memory it stays mute until the next look. */
    if (ab_poller_set(engine->poller, &balance->watch, events) != AB_OK) balance->called = false;
  }
}

void ab__balance_invite(ab_engine *engine, uint32_t budget) {
  if (engine->balance->watch.fd >= 0) engine->balance->budget = budget;
}

/* Something is in the relay. A worker that is not less busy than others leaves it to
 * them, once. */
static void answer_call(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  balance->called = false;
  if (balance->insists > 0) {
    balance->offer_at = engine->now + OFFER_AGAIN;
    ab__balance_invite(engine, BALANCE_MOVES);
    return;
  }
  survey others = look_around(engine);
  uint32_t own = peak_now(engine);
  if (!others.shut && 2 * (uint64_t)own > others.busiest) {
    stand_aside(engine);
    return;
  }
  uint32_t share = even_share(&others, own), count = share > own ? (share - own) / ONE : 0;
  if (others.shut || count > BALANCE_MOVES) count = BALANCE_MOVES;
  ab__balance_invite(engine, count > 0 ? count : 1);
}

bool ab__balance_adopt(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  if (balance->budget == 0) return false;
  uint32_t waiting = engine->own_stats.waiting;
  int err = ab__conn_adopt(engine, balance->watch.fd);
  if (err == AB_ENOMEM) return false; /* the next step has room */
  balance->budget--;
  if (err == AB_AGAIN) {
    balance->budget = balance->insists = 0;
  } else if (err == AB_OK && engine->own_stats.waiting > waiting) {
    set_peak(engine, peak_now(engine) + ONE);
  } else if (err == AB_ELIMIT) {
    engine->stats->refused++;
    ab__engine_rest(engine);
  }
  return balance->budget > 0;
}

void ab__balance_adopt_the_last(ab_engine *engine) {
  if (!engine->poller || look_around(engine).serves) return;
  ab__balance_invite(engine, AB_DRAIN_ACCEPTS);
  while (ab__balance_adopt(engine)) continue;
}

/* --- an end that others survive --- */

bool ab__balance_hands_on(const ab_engine *engine) {
  if (!engine->handed_over || engine->refusing || engine->balance->watch.fd < 0) return false;
  return look_around(engine).room > 0;
}

static void hand_on(void *ctx AB_UNUSED, void *one) {
  ab_conn *conn = one;
  if (conn->state != AB_CONN_HEAD || !ab__conn_can_move(conn)) return;
  if (conn->engine->now >= conn->engine->balance->offer_at) give(conn);
}

void ab__balance_hand_on_all(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  if (balance->watch.fd < 0) return; /* none move */
  balance->hand_on_at = engine->now + AB_LOOK;
  uint64_t before = balance->given;
  if (ab__balance_hands_on(engine)) ab_slab_each(&engine->conns, hand_on, NULL);
  /* The others may have begun to drain meanwhile. */
  if (balance->given != before) ab__balance_adopt_the_last(engine);
}

/* Whatever comes to rest, or has something unread, and from time to time those for which there was
 * no room in the relay. */
static void hand_on_some(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  if (engine->now >= balance->hand_on_at) {
    ab__balance_hand_on_all(engine);
  } else if (engine->now >= balance->offer_at && ab__balance_hands_on(engine)) {
    give_ready(engine, BALANCE_MOVES);
  }
}

/* --- a turn --- */

static void note_turn(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  balance->turn_time = balance->rests ? 0 : engine->now - balance->begun;
  balance->begun = engine->now;
  balance->rests = false;
  AB_PUT(engine->stats->rests, 0);
}

void ab__balance_turn(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  note_turn(engine);
  bool accepts = !is_shut(engine) && !engine->rest_until && !engine->draining;
  if (accepts && engine->now - balance->looked >= AB_NSEC_PER_SEC) look_at_all(engine);
  if (balance->watch.fd < 0) return;
  if (balance->return_at && engine->now >= balance->return_at) {
    balance->return_at = 0;
    balance->insists = 2; /* the poller tells of it after this turn */
    ab__balance_listen(engine, accepts);
  }
  ab__balance_measure(engine);
  if (AB_UNLIKELY(engine->draining) && balance->hand_on_at) hand_on_some(engine);
  if (AB_UNLIKELY(balance->called)) {
    answer_call(engine);
  } else if (AB_UNLIKELY(balance->insists > 0)) {
    balance->insists--;
  }
}
