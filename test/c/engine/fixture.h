/* A real poller and engine on a counting allocator, with clients at the other end of socket pairs
 * or of a listener, and an application that answers at once or on command. Time is an argument of
 * the engine, so deadlines pass without sleeping. */
#ifndef AB_TEST_ENGINE_FIXTURE_H
#define AB_TEST_ENGINE_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "engine/conn.h"
#include "io/storage.h"

#define FIXTURE_HELD 2048

/* What is to be said of a request, and as much of its body as there is room for. */
typedef struct fixture_read {
  struct fixture_read *next;
  ab_exchange *exchange;
  size_t len;
  char text[4096];
} fixture_read;

typedef struct fixture {
  check_mem mem;
  ab_limits limits;
  ab_poller *poller;
  ab_engine *engine;
  ab_nsec now;
  size_t borrowed;   /* owners that the engine took */
  size_t released;   /* and gave back */
  ab_figures *stats; /* where it keeps its figures; NULL: in its own memory */
  bool hold;         /* requests are kept in `held` instead of answered */
  bool mute;         /* requests are not taken at all */
  const char *big; /* content that is borrowed instead of the usual one; its owner is the fixture */
  size_t big_len;
  ab_exchange *held[FIXTURE_HELD];
  unsigned held_count;
  struct fixture_read *reading; /* requests whose body is being read before they are answered */
  unsigned taken;               /* requests */
  unsigned events;  /* all kinds that came since the test cleared it, REQUEST excepted */
  unsigned failed;  /* answers that could not be queued */
  char paths[2048]; /* first letters of the paths taken, in order */
} fixture;

static AB_UNUSED void fixture_release(void *ctx, void *owner) {
  fixture *self = ctx;
  if (owner) self->released++;
}

/* Where the system does not tell what is in memory, files of tests are: they were just written. */
static AB_UNUSED bool fixture_has_it(int fd AB_UNUSED, uint64_t offset AB_UNUSED,
                                     size_t len AB_UNUSED) {
  return true;
}

static const ab_storage_calls fixture_storage AB_UNUSED = {fixture_has_it, ab_storage_warm};

static AB_UNUSED bool fixture_start(fixture *self) {
  self->poller = ab_poller_init(&self->mem.mem);
  self->engine =
      self->poller ? ab_engine_init(&self->mem.mem, &self->limits, fixture_release, self) : NULL;
  if (self->engine && self->stats) ab_engine_count_in(self->engine, self->stats);
  if (self->engine && !AB_HAS(MINCORE)) self->engine->storage = &fixture_storage;
  return self->engine && ab_engine_attach(self->engine, self->poller, self->now) == AB_OK;
}

/* Change self->limits in between; fixture_start makes the engine. */
static AB_UNUSED void fixture_prepare(fixture *self) {
  *self = (fixture){.limits = ab_limits_default(), .now = 1000 * AB_NSEC_PER_SEC};
  check_mem_init(&self->mem, 0);
}

static AB_UNUSED void fixture_init(fixture *self) {
  fixture_prepare(self);
  CHECK(fixture_start(self));
}

/* Everything goes back. What is still held is finished. */
static AB_UNUSED void fixture_fini(fixture *self) {
  if (self->engine) {
    ab_engine_detach(self->engine);
    for (unsigned i = 0; i < self->held_count; i++) ab_exchange_finish(self->held[i], false);
    for (fixture_read *one = self->reading, *next; one; one = next) {
      next = one->next;
      ab_exchange_finish(one->exchange, AB_FINISH_BROKEN);
      free(one);
    }
    ab_figures stats = ab_engine_get_stats(self->engine);
    CHECK_INT(0, stats.connections);
    CHECK_INT(0, stats.in_app);
    CHECK_INT(0, stats.waiting);
    ab_engine_fini(self->engine);
  }
  if (self->poller) ab_poller_fini(self->poller);
  CHECK_INT(self->borrowed, self->released);
  CHECK_INT(0, self->mem.live);
}

/* --- the application --- */

static AB_UNUSED int lend(fixture *self, ab_exchange *exchange, const char *ptr, size_t len) {
  int err = ab_exchange_borrow(exchange, ptr, len, self);
  if (!err) self->borrowed++;
  return err;
}

static AB_UNUSED int respond(fixture *self, ab_exchange *exchange, const char *text, size_t len,
                             bool borrow) {
  char head[128];
  bool keep = ab_exchange_keep_alive(exchange);
  int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%s\r\n", len,
                   keep ? "" : "Connection: close\r\n");
  int err = ab_exchange_write(exchange, head, (size_t)n);
  if (err) return err;
  return borrow ? lend(self, exchange, text, len) : ab_exchange_write(exchange, text, len);
}

static AB_UNUSED void answer(fixture *self, ab_exchange *exchange, const char *text) {
  ab_engine_lock(self->engine);
  int err = respond(self, exchange, text, strlen(text), false);
  if (err) self->failed++;
  ab_exchange_finish(exchange, err == AB_OK);
  ab_engine_unlock(self->engine);
}

static AB_UNUSED void answer_held(fixture *self, unsigned i, const char *text) {
  ab_exchange *exchange = self->held[i];
  self->held[i] = self->held[--self->held_count];
  answer(self, exchange, text);
}

/* One call, for a request that is held. */
static AB_UNUSED ssize_t read_body(fixture *self, ab_exchange *exchange, char *buf, size_t len) {
  ab_engine_lock(self->engine);
  ssize_t got = ab_exchange_read_body(exchange, buf, len);
  ab_engine_unlock(self->engine);
  return got;
}

/* Reads on as long as there is something. The content comes into static memory, with a NUL behind
 * it; *result is what ended it. */
static AB_UNUSED const char *read_what_is_there(fixture *self, ab_exchange *exchange,
                                                ssize_t *result) {
  static char content[65536];
  size_t len = 0;
  while ((*result = read_body(self, exchange, content + len, sizeof(content) - 1 - len)) > 0) {
    len += (size_t)*result;
  }
  content[len] = '\0';
  return content;
}

static AB_UNUSED bool body_is_done(const ab_exchange *exchange) {
  return ab_exchange_body(exchange)->done;
}

static AB_UNUSED void answer_error(fixture *self, ab_exchange *exchange, int error) {
  char head[128];
  int n = snprintf(head, sizeof head,
                   "HTTP/1.1 %d No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                   ab_http_error_status(error));
  ab_engine_lock(self->engine);
  if (error != AB_EPEER && ab_exchange_write(exchange, head, (size_t)n) != AB_OK) self->failed++;
  ab_exchange_finish(exchange, AB_FINISH_BROKEN);
  ab_engine_unlock(self->engine);
}

static AB_UNUSED void answer_text(fixture *self, ab_exchange *exchange, const char *text,
                                  size_t len) {
  ab_engine_lock(self->engine);
  int err = self->big ? respond(self, exchange, self->big, self->big_len, true)
                      : respond(self, exchange, text, len, false);
  if (err) self->failed++;
  ab_exchange_finish(exchange, err == AB_OK);
  ab_engine_unlock(self->engine);
}

/* Reads on in a body, and answers when it has ended or failed: then it returns true. */
static AB_UNUSED bool read_and_answer(fixture *self, fixture_read *one) {
  char rest[4096];
  for (;;) {
    size_t room = sizeof(one->text) - one->len;
    ssize_t got = read_body(self, one->exchange, room ? one->text + one->len : rest,
                            room ? room : sizeof rest);
    if (got == AB_AGAIN) return false;
    if (got > 0) {
      if (room) one->len += (size_t)got;
      continue;
    }
    if (got < 0) {
      answer_error(self, one->exchange, (int)got);
    } else {
      answer_text(self, one->exchange, one->text, one->len);
    }
    return true;
  }
}

/* Answers with the path and, if there is one, the body, when it is whole. One that is expected is
 * left unread. */
static AB_UNUSED void take_request(fixture *self, ab_exchange *exchange, ab_head_loan *head) {
  char path[4096];
  ab_view view = head->request->path;
  if (view.len > sizeof path) view.len = sizeof path;
  memcpy(path, view.ptr, view.len);
  ab_exchange_give_back(exchange, head);
  if (self->taken < sizeof(self->paths) - 1) self->paths[self->taken] = path[view.len > 1];
  self->taken++;
  if (self->hold && self->held_count < FIXTURE_HELD) {
    self->held[self->held_count++] = exchange;
    return;
  }
  if (!ab_exchange_body(exchange) || exchange->expects) {
    answer_text(self, exchange, path, view.len);
    return;
  }
  fixture_read *one = malloc(sizeof *one);
  one->exchange = exchange;
  one->len = (size_t)snprintf(one->text, sizeof one->text, "%.*s:", (int)view.len, path);
  if (read_and_answer(self, one)) {
    free(one);
  } else {
    one->next = self->reading;
    self->reading = one;
  }
}

/* Somebody who reads has been told of something. */
static AB_UNUSED bool go_on_reading(fixture *self, ab_exchange *exchange) {
  for (fixture_read **at = &self->reading; *at; at = &(*at)->next) {
    fixture_read *one = *at;
    if (one->exchange != exchange) continue;
    if (read_and_answer(self, one)) {
      *at = one->next;
      free(one);
    }
    return true;
  }
  return false;
}

static AB_UNUSED void take_events(fixture *self) {
  for (unsigned i = 0; i < 100000; i++) {
    unsigned events = 0;
    ab_head_loan head = {NULL};
    ab_exchange *exchange =
        ab_engine_next(self->engine, self->mute ? 0 : AB_LEVELS, 0, &events, &head);
    if (!exchange) return;
    if (events & AB_EVENT_REQUEST) {
      CHECK_INT(AB_EVENT_REQUEST, events);
      take_request(self, exchange, &head);
      CHECK(!head.request);
    } else {
      CHECK(!head.request);
      if (!go_on_reading(self, exchange)) self->events |= events;
    }
  }
  CHECK(!"events come to an end");
}

/* What has happened is told, without waiting and without a turn. Returns how many events. */
static AB_UNUSED int fixture_hear(fixture *self) {
  int ready = ab_poller_wait(self->poller, 0);
  ab_poller_lock(self->poller);
  ab_poller_dispatch(self->poller);
  ab_poller_unlock(self->poller);
  return ready;
}

/* One turn without waiting. True when the engine asks for another at once. */
static AB_UNUSED bool fixture_turn(fixture *self) {
  int ready = fixture_hear(self);
  ab_engine_begin_turn(self->engine, self->now);
  bool more = false;
  for (unsigned steps = 0;; steps++) {
    bool batch = ab_engine_step(self->engine);
    take_events(self);
    more = ab_engine_end_step(self->engine);
    CHECK_INT(0, self->engine->touched_count);
    CHECK_INT(0, self->engine->arena.used);
    if (!batch) break;
    if (steps == 10000) {
      CHECK(!"a turn comes to an end");
      break;
    }
  }
  return more || ready > 0;
}

/* A turn's first step as far as its requests, which the test takes: the step is still to be ended.
 */
static AB_UNUSED void fixture_step(fixture *self) {
  fixture_hear(self);
  ab_engine_begin_turn(self->engine, self->now);
  CHECK(!ab_engine_step(self->engine));
}

/* The next request, with its head on loan. */
static AB_UNUSED ab_exchange *fixture_take(fixture *self, ab_head_loan *head) {
  unsigned events = 0;
  ab_exchange *exchange = ab_engine_next(self->engine, AB_LEVELS, 0, &events, head);
  CHECK_INT(AB_EVENT_REQUEST, events);
  return exchange;
}

/* Turns until nothing happens any more. Returns how many it took. */
static AB_UNUSED unsigned fixture_run(fixture *self) {
  unsigned turns = 1;
  while (fixture_turn(self)) {
    if (++turns == 5000) {
      CHECK(!"the engine comes to rest");
      break;
    }
  }
  return turns;
}

/* Lets `seconds` pass, and one tick of the timers. */
static AB_UNUSED void fixture_pass(fixture *self, unsigned seconds) {
  self->now += seconds * AB_NSEC_PER_SEC + AB_WHEEL_TICK;
  fixture_run(self);
}

static AB_UNUSED ab_figures stats_of(fixture *self) {
  return ab_engine_get_stats(self->engine);
}

/* --- clients --- */

/* Opens a connection of the engine's at one end of a socket pair. Returns the client's end. */
static AB_UNUSED int client_of_type(fixture *self, int type, ab_conn **conn) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) abort();
  ab_addr nobody = {0};
  ab_engine_lock(self->engine);
  ab_conn *opened = ab__conn_open(self->engine, ends[0], &nobody, NULL);
  ab_engine_unlock(self->engine);
  if (!opened) close(ends[0]);
  if (conn) *conn = opened;
  return ends[1];
}

static AB_UNUSED int client_open(fixture *self) {
  return client_of_type(self, SOCK_STREAM, NULL);
}

static AB_UNUSED void client_send_bytes(int fd, const char *bytes, size_t len) {
  CHECK_INT(len, send(fd, bytes, len, MSG_NOSIGNAL));
}

static AB_UNUSED void client_send(int fd, const char *text) {
  client_send_bytes(fd, text, strlen(text));
}

/* A client that has sent these bytes, which have been looked at. */
static AB_UNUSED int client_with(fixture *self, const char *text) {
  int client = client_open(self);
  client_send(client, text);
  fixture_run(self);
  return client;
}

/* A new fixture that holds requests, and the client of the first one. */
static AB_UNUSED int fixture_init_held(fixture *self, const char *request) {
  fixture_init(self);
  self->hold = true;
  return client_with(self, request);
}

static AB_UNUSED void fixture_end(fixture *self, int client) {
  close(client);
  fixture_fini(self);
}

/* Sends all of it, with turns of the engine whenever the socket is full. */
static AB_UNUSED bool client_push(fixture *self, int fd, const char *bytes, size_t len) {
  for (unsigned i = 0; i < 10000 && len > 0; i++) {
    ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) return false;
    if (n > 0) {
      bytes += n;
      len -= (size_t)n;
    }
    fixture_run(self);
  }
  return len == 0;
}

/* What has arrived, with a NUL behind it, in static memory. *end tells whether the stream has ended
 * there; NULL when that does not matter. */
static AB_UNUSED const char *client_read(int fd, bool *end) {
  static char buf[65536];
  size_t len = 0;
  ssize_t n = -1;
  while (len < sizeof(buf) - 1 && (n = recv(fd, buf + len, sizeof(buf) - 1 - len, 0)) > 0)
    len += (size_t)n;
  buf[len] = '\0';
  if (end) *end = n == 0 || (n < 0 && errno != EAGAIN);
  return buf;
}

/* Reads and throws away until nothing comes any more; the bytes' number. */
static AB_UNUSED size_t client_drain(fixture *self, int fd) {
  static char buf[65536];
  size_t total = 0;
  for (unsigned i = 0; i < 100000; i++) {
    ssize_t n = recv(fd, buf, sizeof buf, 0);
    if (n > 0) total += (size_t)n;
    fixture_run(self);
    if (n > 0) continue;
    n = recv(fd, buf, sizeof buf, 0);
    if (n <= 0) break;
    total += (size_t)n;
  }
  return total;
}

static AB_UNUSED unsigned occurrences(const char *text, const char *part) {
  unsigned count = 0;
  for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) count++;
  return count;
}

/* A TCP listener on a port of the kernel's choice; 0 without memory. */
static AB_UNUSED uint16_t fixture_listen_on(fixture *self, const ab_listener_terms *terms) {
  ab_listener *listener = ab_listener_tcp(&self->mem.mem, "127.0.0.1", 0, NULL);
  if (!listener) return 0;
  uint16_t port = ab_listener_port(listener);
  if (ab_engine_add_listener(self->engine, listener, terms) != AB_OK) {
    ab_listener_fini(listener);
    return 0;
  }
  return port;
}

static AB_UNUSED uint16_t fixture_listen(fixture *self) {
  return fixture_listen_on(self, NULL);
}

static AB_UNUSED int client_tcp(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    return -1;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  const int one = 1; /* the engine's clock is not the kernel's: nothing may wait for it */
  CHECK_INT(0, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
  return fd;
}

/* Closes so that the other side gets a reset. */
static AB_UNUSED void client_reset(int fd) {
  struct linger linger = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  close(fd);
}

#endif
