/* What a worker does with regard to its siblings: see balance.h. */
#include "engine/balance.h"

#include "engine/move.h"
#include "engine/queue.h"

/* A worker turns each second, for its heartbeat: one that has not for this time stands still. */
#define STANDS_STILL (2500 * AB_NSEC_PER_MS)
/* A peak of the wait fades to nothing in this time, and what is certain of it rises as fast. */
#define FADE (100 * AB_NSEC_PER_MS)
/* Looks of a worker that is shut, AB_LOOK apart, that believe the page. */
#define TRUSTING_LOOKS 100
/* How often the kernel may tell a worker of connections before it is the last one to be told. */
#define TURNS_IN_FRONT 4
#define NSEC_PER_US    (AB_NSEC_PER_MS / 1000)
/* The least time between two measures. */
#define SAMPLE AB_NSEC_PER_MS
/* The most requests, or connections, that are counted. */
#define MOST 1024u
/* The pace is that of the last one or two of these. */
#define PACE_TIME AB_NSEC_PER_SEC
/* Connections that one turn gives away, or takes. */
#define BALANCE_MOVES 32u
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
      .busy = FADE, /* at first a request takes what it computes */
      .done = FADE,
      .rests = true,
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

static void set_peak(ab_engine *engine, ab_nsec peak) {
  engine->balance->peak = peak;
  engine->balance->peaked = engine->now;
  ab_nsec us = peak / NSEC_PER_US;
  AB_SHOW(engine, pressure, us < UINT32_MAX ? (uint32_t)us : UINT32_MAX);
}

static ab_nsec fade(ab_nsec peak, ab_nsec age) {
  return age < FADE ? peak - peak / FADE * age - peak % FADE * age / FADE : 0;
}

/* What comes during a turn is seen by the next one: it lasts to the end of this turn, and for as
 * long as a turn does. */
static ab_nsec peak_now(const ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  ab_nsec until = balance->peaked + balance->turn_time;
  return balance->begun > until ? fade(balance->peak, balance->begun - until) : balance->peak;
}

static bool is_shut(const ab_engine *engine) {
  return engine->paused || engine->withheld;
}

void ab__balance_note(ab_engine *engine) {
  AB_SHOW(engine, shut, is_shut(engine));
  engine->balance->looks = 0;
  if (engine->paused) engine->look_at = engine->now + AB_LOOK;
}

/* The time by which a request takes longer than it should. */
static ab_nsec overdue(ab_nsec due, ab_nsec now) {
  return due && now > due ? now - due : 0;
}

/* What there is to know of the siblings that serve. */
typedef struct survey {
  bool serves;     /* one does */
  uint32_t room;   /* how many take new connections */
  uint32_t others; /* how many turn: to wait there is as good as here */
  ab_nsec sum;     /* of these: how long a request would wait, at most */
} survey;

static void count_in(survey *survey, const ab_page_glance *other, ab_nsec now) {
  if (other->state != AB_PAGE_SERVING) return;
  survey->serves = true;
  if (other->turned + STANDS_STILL <= now) return;
  if (!other->shut) survey->room++;
  survey->others++;
  /* One that has work measures when it comes to it, however long that takes. */
  ab_nsec age = other->due == 0 && now > other->turned ? now - other->turned : 0;
  survey->sum += fade(other->pressure * NSEC_PER_US, age) + overdue(other->due, now);
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

/* The wait if it were the same everywhere. */
static ab_nsec even_share(const survey *others, ab_nsec own) {
  return (others->sum + own) / (others->others + 1);
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

/* --- how long a request waits --- */

/* What it costs in the time of this worker, which may have a part of a processor only. */
static ab_nsec time_of(const ab_balance *balance, ab_nsec cost) {
  return (ab_nsec)((double)cost * balance->busy / balance->done);
}

static bool is_behind(const ab_engine *engine) {
  return is_shut(engine) || engine->own_stats.waiting > engine->own_stats.held;
}

void ab__balance_took(ab_engine *engine, ab_nsec cost) {
  ab_balance *balance = engine->balance;
  balance->taken += cost;
  balance->last = time_of(balance, cost);
  balance->due = engine->latest + balance->last;
  if (!balance->siblings.computes) AB_PUT(engine->stats->due, balance->due);
}

void ab__balance_rest(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  if (is_behind(engine)) return;
  bool works = balance->siblings.computes && engine->own_stats.in_app > 0;
  AB_PUT(engine->stats->due, works ? UINT64_MAX : 0);
  if (works) return;
  balance->rests = true;
  balance->wait = balance->due = 0;
}

/* The time in which requests waited all along, and what those would have cost that were taken. */
static void note_pace(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  ab_nsec time = engine->now - balance->sampled;
  bool waits = engine->own_stats.waiting > engine->own_stats.held;
  if (waits && balance->waited) {
    balance->busy += (double)(time < PACE_TIME ? time : PACE_TIME);
    balance->done += (double)balance->taken;
  }
  if (balance->busy > 2 * PACE_TIME) {
    balance->busy /= 2;
    balance->done /= 2;
  }
  balance->taken = 0;
  balance->waited = waits;
}

/* No more than MOST. */
static ab_nsec add_length(ab_nsec count, const ab_list *head) {
  const ab_list *node = head->next;
  for (; node != head && count < MOST; node = node->next) count++;
  return count;
}

/* Of the requests that wait for the engine or a place, and those that compute. */
static ab_nsec wait_now(ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  ab_nsec unread = add_length(add_length(0, &engine->batch), &engine->later);
  ab_nsec cost = add_length(unread, &engine->app_later) * ab__queue_guess(engine);
  ab_nsec wait = time_of(balance, cost + ab__queue_cost(engine, MOST));
  if (balance->siblings.computes) return wait + ab__engine_taken(engine) * balance->last;
  return balance->due ? wait + balance->last : wait;
}

static ab_nsec own_overdue(const ab_engine *engine) {
  return is_behind(engine) ? overdue(engine->balance->due, engine->now) : 0;
}

/* How many wait changes from turn to turn, the more so the more connections are busy. What is
 * certain lies between `wait`, which rises slowly, since many requests at once may be over soon,
 * and falls at once, and the peak, which is reached at once and fades. */
static void sample(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  note_pace(engine);
  ab_nsec peak = wait_now(engine), now = peak + own_overdue(engine), before = balance->wait;
  ab_nsec since = balance->woke > balance->sampled ? balance->woke : balance->sampled;
  balance->wait = now > before ? now - fade(now - before, engine->now - since) : now;
  balance->sampled = engine->now;
  if (peak >= peak_now(engine)) set_peak(engine, peak);
  if (is_behind(engine)) AB_PUT(engine->stats->due, balance->due);
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

/* What may still be given away in this turn: connections, and what their requests take. */
typedef struct gift {
  uint32_t count;
  ab_nsec time;
} gift;

/* It has to make the waits more equal, and they are estimates: three quarters of its time will do.
 */
static bool is_worth(const gift *gift, ab_nsec time) {
  return gift->time >= time - time / 4;
}

static bool give_one(gift *gift, ab_conn *conn, ab_nsec time) {
  gift->time -= time < gift->time ? time : gift->time;
  return give(conn) && --gift->count > 0;
}

/* Requests that wait for a place, those that have to wait longest first. True if more may go. */
static bool give_requests(ab_engine *engine, gift *gift) {
  for (ab_list *node = engine->requests.prev, *next; node != &engine->requests; node = next) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, event_link);
    ab_nsec time = time_of(engine->balance, exchange->cost);
    next = node->prev;
    if (!is_worth(gift, time) || !ab__conn_can_move(exchange->conn)) continue;
    if (!give_one(gift, exchange->conn, time)) return false;
  }
  return true;
}

/* Connections on which something has come that was not read yet, the last ones of the turn first.
 */
static void give_ready(ab_engine *engine, gift *gift) {
  ab_nsec time = time_of(engine->balance, ab__queue_guess(engine));
  for (ab_list *node = engine->batch.prev, *next; node != &engine->batch; node = next) {
    ab_conn *conn = AB_CONTAINER_OF(node, ab_conn, ready_link);
    next = node->prev;
    if (conn->state != AB_CONN_HEAD || !ab__conn_can_move(conn)) continue;
    if (!is_worth(gift, time) || !give_one(gift, conn, time)) return;
  }
}

static gift may_give(const ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  gift gift = {BALANCE_MOVES, 0};
  bool pending = balance->return_at || balance->insists > 0; /* some may not be taken yet */
  if (engine->draining || pending || engine->now < balance->offer_at) return gift;
  survey others = look_around(engine);
  ab_nsec share = even_share(&others, balance->wait);
  if (balance->wait > share) gift.time = balance->wait - share;
  return gift;
}

static void offer(ab_engine *engine) {
  gift gift = may_give(engine);
  if (gift.time == 0) return;
  uint64_t before = engine->balance->given;
  if (give_requests(engine, &gift)) give_ready(engine, &gift);
  if (engine->balance->given != before) stand_aside(engine);
}

static void measure(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  if (balance->watch.fd < 0 || engine->now - balance->sampled < SAMPLE) return;
  sample(engine);
  offer(engine);
}

void ab__balance_go_on(ab_engine *engine) {
  measure(engine);
  bool accepts = !is_shut(engine) && !engine->rest_until && !engine->draining;
  if (accepts && engine->now - engine->balance->begun >= AB_LOOK)
    ab__services_invite(engine, AB_SHARE_ACCEPTS);
}

/* --- taking connections --- */

void ab__balance_listen(ab_engine *engine, bool listen) {
  ab_balance *balance = engine->balance;
  if (balance->watch.fd < 0) return;
  uint32_t events = AB_POLL_IN | AB_POLL_EXCLUSIVE;
  if (!listen || balance->return_at) {
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

/* Something is in the relay. A worker in which requests wait for longer than elsewhere leaves it to
 * the others, once. */
static void answer_call(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  balance->called = false;
  if (balance->insists > 0) {
    balance->offer_at = engine->now + OFFER_AGAIN;
    ab__balance_invite(engine, BALANCE_MOVES);
    return;
  }
  survey others = look_around(engine);
  ab_nsec own = peak_now(engine) + own_overdue(engine), share = even_share(&others, own);
  if (own > share) {
    stand_aside(engine);
    return;
  }
  ab_nsec count = (share - own) / (time_of(balance, ab__queue_guess(engine)) + 1);
  if (count > BALANCE_MOVES) count = BALANCE_MOVES;
  ab__balance_invite(engine, count > 0 ? (uint32_t)count : 1);
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
    set_peak(engine, peak_now(engine) + time_of(balance, ab__queue_guess(engine)));
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
    give_ready(engine, &(gift){BALANCE_MOVES, UINT64_MAX});
  }
}

/* --- a turn --- */

static void note_turn(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  balance->turn_time = balance->rests ? 0 : engine->now - balance->begun;
  balance->begun = engine->now;
  if (balance->rests) balance->woke = engine->now;
  balance->rests = false;
}

void ab__balance_turn(ab_engine *engine) {
  ab_balance *balance = engine->balance;
  note_turn(engine);
  bool takes = !engine->withheld && !engine->rest_until && !engine->draining;
  if (takes && !engine->paused && engine->now - balance->looked >= AB_NSEC_PER_SEC)
    look_at_all(engine);
  if (balance->watch.fd < 0) return;
  if (balance->return_at && engine->now >= balance->return_at) {
    balance->return_at = 0;
    balance->insists = 2; /* the poller tells of it after this turn */
    ab__balance_listen(engine, takes);
  }
  measure(engine);
  if (AB_UNLIKELY(engine->draining) && balance->hand_on_at) hand_on_some(engine);
  if (AB_UNLIKELY(balance->called)) {
    answer_call(engine);
  } else if (AB_UNLIKELY(balance->insists > 0)) {
    balance->insists--;
  }
}
