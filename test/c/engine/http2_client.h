/* A client of HTTP/2 for tests of the engine, the library's own, and how an application answers it.
 */
#ifndef AB_TEST_ENGINE_HTTP2_CLIENT_H
#define AB_TEST_ENGINE_HTTP2_CLIENT_H

#include "engine/fixture.h"
#include "engine/http2.h"
#include "http2/peer.h"

#define OF(id)      (&client->peer.streams[id])
#define HEADS_OF(i) (client->peer.streams[i].heads)

/* --- a client --- */

typedef struct h2_client {
  peer peer;
  fixture *fx;
  int fd;
  size_t most;       /* bytes that it sends at once; 0: all */
  bool deaf;         /* it reads nothing */
  const uint8_t *at; /* what the socket has not taken */
  size_t left;
} h2_client;

static AB_UNUSED h2_client *client_new(fixture *fx, const nghttp2_settings_entry *entries,
                                       size_t count, bool consumes) {
  h2_client *client = calloc(1, sizeof *client);
  if (!client) abort();
  peer_init_with(&client->peer, entries, count, consumes);
  client->fx = fx;
  client->fd = client_open(fx);
  return client;
}

static AB_UNUSED h2_client *client_of(fixture *fx) {
  return client_new(fx, NULL, 0, true);
}

static AB_UNUSED bool client_says(h2_client *client) {
  bool any = false;
  for (;;) {
    if (client->left == 0) {
      ssize_t len = nghttp2_session_mem_send(client->peer.session, &client->at);
      if (len <= 0) return any;
      client->left = (size_t)len;
    }
    size_t len = client->most && client->most < client->left ? client->most : client->left;
    ssize_t n = send(client->fd, client->at, len, MSG_NOSIGNAL);
    if (n <= 0) return any;
    client->at += n;
    client->left -= (size_t)n;
    any = true;
    if (client->most) fixture_run(client->fx);
  }
}

static AB_UNUSED bool client_hears(h2_client *client) {
  static uint8_t buf[65536];
  bool any = false;
  for (ssize_t n; !client->deaf && (n = recv(client->fd, buf, sizeof buf, 0)) > 0; any = true) {
    CHECK_INT(n, nghttp2_session_mem_recv(client->peer.session, buf, (size_t)n));
  }
  return any;
}

/* Until both are silent. */
static AB_UNUSED void talk(h2_client *client) {
  for (bool any = true; any;) {
    any = client_says(client);
    fixture_run(client->fx);
    any |= client_hears(client);
  }
}

static AB_UNUSED bool has_ended(const h2_client *client) {
  char byte;
  ssize_t n = recv(client->fd, &byte, 1, MSG_PEEK);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

/* The session's object goes, the socket stays. */
static AB_UNUSED void client_free(h2_client *client) {
  peer_fini(&client->peer);
  free(client);
}

static AB_UNUSED void client_leave(h2_client *client) {
  fixture *fx = client->fx;
  close(client->fd);
  client_free(client);
  fixture_run(fx);
}

static AB_UNUSED void end(fixture *fx, h2_client *client) {
  client_leave(client);
  fixture_fini(fx);
}

static AB_UNUSED int32_t post(h2_client *client, const char *path, const char *body) {
  client->peer.upload = body;
  return peer_request(&client->peer, PAIRS(PAIRS_OF("POST", path)), true);
}

/* --- the application --- */

static AB_UNUSED void h2_init_with(fixture *fx) {
  fx->engine->default_service.http2 = true;
  fx->hold = true;
}

static AB_UNUSED void h2_init(fixture *fx) {
  fixture_init(fx);
  h2_init_with(fx);
}

/* Changes limits in between: of the engine, and of its default service. */
static AB_UNUSED void set_limits(fixture *fx, const ab_limits *limits) {
  fx->limits = *limits;
  fx->engine->default_service.limits = *limits;
}

/* Queues a head with these lines, of a response whose content is as described. */
static AB_UNUSED int give_head(ab_exchange *exchange, ab_content content, const char *lines,
                               const char *whole) {
  char text[1024];
  if (content.status == 0) content.status = 200;
  int len = snprintf(text, 512, "HTTP/1.1 %d X\r\n%s", content.status, lines);
  char *last = ab_exchange_put_framing(exchange, text + len, &content);
  size_t count = whole ? strlen(whole) : 0;
  return ab_exchange_head(exchange, text, (size_t)(last - text), &content, whole, count);
}

static const AB_UNUSED ab_content unknown_length = {.status = 200};

static AB_UNUSED ab_content of_length(uint64_t length) {
  return (ab_content){.status = 200, .length = length, .known = true};
}

/* What was held, at its place. */
static AB_UNUSED ab_exchange *take_held(fixture *fx, unsigned i) {
  ab_exchange *exchange = fx->held[i];
  fx->held_count--;
  memmove(&fx->held[i], &fx->held[i + 1], (fx->held_count - i) * sizeof fx->held[0]);
  return exchange;
}

static AB_UNUSED void reply_to(fixture *fx, ab_exchange *exchange, const char *text) {
  ab_engine_lock(fx->engine);
  int error = give_head(exchange, of_length(strlen(text)), "X-Is: it\r\n", text);
  ab_exchange_finish(exchange, error ? AB_FINISH_BROKEN : AB_FINISH_COMPLETE);
  if (error) fx->failed++;
  ab_engine_unlock(fx->engine);
}

static AB_UNUSED void reply(fixture *fx, unsigned i, const char *text) {
  reply_to(fx, take_held(fx, i), text);
}

static AB_UNUSED void finish(fixture *fx, ab_exchange *exchange, enum ab_finish how) {
  ab_engine_lock(fx->engine);
  ab_exchange_finish(exchange, how);
  ab_engine_unlock(fx->engine);
}

#endif
