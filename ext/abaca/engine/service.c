/* Services: the listeners of an engine, their terms for connections, and accepting. */
#include <string.h>

#include "base/bits.h"
#include "engine/balance.h"
#include "engine/own_answer.h"
#include "engine/redirect.h"
#include "http2/session.h"

#define ARENA_READS 4 /* full reads that one turn has room for */

int ab__engine_make_room(ab_engine *engine, const ab_limits *limits) {
  size_t fields, request, room;
  if (!ab_mul_size(limits->max_header_count, sizeof(ab_field), &fields) ||
      !ab_add_size(fields, sizeof(ab_head) + 32, &request) ||
      !ab_add_size(request, AB_RECV_MAX, &room) || !ab_mul_size(room, ARENA_READS, &room)) {
    return AB_ENOMEM;
  }
  if (request <= engine->request_room || request <= engine->next_room) return AB_OK;
  ab_arena arena;
  if (ab_arena_init(&arena, &engine->mem, room) != AB_OK) return AB_ENOMEM;
  ab_arena_fini(&engine->next_arena, &engine->mem);
  engine->next_arena = arena;
  engine->next_room = request;
  return AB_OK;
}

static void mute(ab_service *service) {
  service->budget = 0;
  ab_poller_unset(service->engine->poller, &service->watch, false);
}

void ab__engine_listen(ab_engine *engine) {
  if (!engine->poller) return;
  bool takes = !engine->draining && !engine->rest_until && !engine->withheld;
  uint32_t events = engine->balance ? AB_POLL_IN | AB_POLL_EXCLUSIVE : AB_POLL_IN;
  for (ab_service *service = engine->services; service; service = service->next) {
    if (!takes || engine->look_at || (service->tls && engine->tls_rest_until)) {
      mute(service);
    } else if (service->watch.events != events) {
      /* Without memory the service stays mute, and is tried again after a rest. */
      if (ab_poller_set(engine->poller, &service->watch, events) != AB_OK)
        engine->rest_until = engine->now + AB_REST;
    }
  }
  if (engine->balance) ab__balance_listen(engine, takes);
}

void ab__engine_rest(ab_engine *engine) {
  engine->rest_until = engine->now + AB_REST;
  ab__engine_listen(engine);
}

/* The listener is level-triggered: what a turn leaves comes with the next. */
static void service_ready(ab_watch *watch, uint32_t events AB_UNUSED) {
  ab_service *service = AB_CONTAINER_OF(watch, ab_service, watch);
  ab_engine *engine = service->engine;
  if (AB_UNLIKELY(engine->paused)) {
    if (service->budget == 0) engine->knocked = true;
  } else if (engine->balance) {
    service->budget = AB_SHARE_ACCEPTS;
    ab__balance_stand_back(service);
  } else {
    service->budget = AB_TURN_ACCEPTS;
  }
}

void ab__services_invite(ab_engine *engine, uint32_t budget) {
  for (ab_service *service = engine->services; service; service = service->next) {
    service->budget = budget;
  }
}

/* Takes the socket. NULL without memory. */
static ab_conn *open_conn(ab_service *service, int fd, const ab_addr *peer) {
  ab_engine *engine = service->engine;
  ab_conn *conn = ab__conn_open(engine, fd, peer, service);
  if (!conn) {
    ab_fd_close(fd);
    return NULL;
  }
  if (AB_LIKELY(!service->tls) || ab__handshake_begin(conn)) return conn;
  ab__conn_drop(conn);
  return NULL;
}

static bool service_has_room(ab_service *service) {
  if (AB_LIKELY(!service->tls) || ab__handshakes_have_room(service->engine)) return true;
  service->budget = 0;
  ab__engine_listen(service->engine);
  return false;
}

ab_conn *ab__service_accept(ab_service *service) {
  ab_engine *engine = service->engine;
  if (service->budget == 0 || service->watch.fd < 0 || !service_has_room(service)) return NULL;
  service->budget--;
  ab_addr peer;
  int fd = ab_listener_accept(service->listener, &peer);
  ab_conn *conn = fd < 0 ? NULL : open_conn(service, fd, &peer);
  if (conn) {
    engine->stats->accepted++;
    engine->busy_until = engine->now;
    return conn;
  }
  service->budget = 0;
  if (fd != AB_AGAIN) {
    engine->stats->refused++;
    ab__engine_rest(engine);
  }
  return NULL;
}

static int copy_proxies(ab_service *service, const ab_listener_terms *terms) {
  size_t size;
  service->proxy_versions = terms->proxy_accept;
  if (terms->proxy_count == 0) return AB_OK;
  if (!ab_mul_size(terms->proxy_count, sizeof(*terms->proxies), &size)) return AB_ENOMEM;
  service->proxies = ab_alloc(&service->engine->mem, size);
  if (!service->proxies) return AB_ENOMEM;
  memcpy(service->proxies, terms->proxies, size);
  service->proxy_count = terms->proxy_count;
  return AB_OK;
}

static void free_service(ab_service *service) {
  const ab_mem *mem = &service->engine->mem;
  ab_free(mem, service->proxies);
  ab_free(mem, service->redirect);
  ab_tls_context_release(service->tls);
  ab_free(mem, service);
}

/* A service that is not registered yet; NULL without memory. */
static ab_service *make_service(ab_engine *engine, ab_listener *listener,
                                const ab_listener_terms *terms) {
  ab_service *service = ab_alloc_zero(&engine->mem, sizeof(*service));
  if (!service) return NULL;
  service->limits = terms->limits ? *terms->limits : engine->default_service.limits;
  service->watch.ready = service_ready;
  service->watch.roams = true;
  service->watch.fd = ab_listener_fd(listener);
  service->engine = engine;
  service->listener = listener;
  service->http2 = terms->http2 && !terms->redirect && ab_h2_library();
  service->secure = terms->tls != NULL;
  service->tls = ab_tls_context_hold(terms->tls);
  service->redirects_clear = terms->redirects_clear;
  if (terms->redirect) service->redirect = ab__redirect_init(&engine->mem, terms->redirect);
  bool whole = !terms->redirect || service->redirect;
  if (whole && copy_proxies(service, terms) == AB_OK) return service;
  free_service(service);
  return NULL;
}

/* [locked] From here on connections may come. */
static int open_service(ab_engine *engine, ab_service *service) {
  int err = ab__engine_make_room(engine, &service->limits);
  if (err) return err;
  ab_service **end = &engine->services;
  while (*end) end = &(*end)->next;
  *end = service;
  ab__own_answer_learn(engine);
  ab__engine_listen(engine);
  return AB_OK;
}

int ab_engine_add_listener(ab_engine *engine, ab_listener *listener,
                           const ab_listener_terms *terms) {
  ab_service *service =
      make_service(engine, listener, terms ? terms : &(ab_listener_terms){.limits = NULL});
  if (!service) return AB_ENOMEM;
  ab_engine_lock(engine);
  int err = open_service(engine, service);
  ab_engine_unlock(engine);
  if (err) free_service(service);
  return err;
}

static ab_service *service_at(const ab_engine *engine, size_t i) {
  ab_service *service = engine->services;
  while (service && i-- > 0) service = service->next;
  return service;
}

const ab_listener *ab_engine_listener(const ab_engine *engine, size_t i) {
  const ab_service *service = service_at(engine, i);
  return service ? service->listener : NULL;
}

bool ab_engine_replace_tls(ab_engine *engine, size_t i, ab_tls_context *fresh) {
  ab_engine_lock(engine);
  ab_service *service = service_at(engine, i);
  ab_tls_context *old = service ? service->tls : NULL;
  if (old) {
    service->tls = ab_tls_context_hold(fresh);
    ab__own_answer_learn(engine);
  }
  ab_engine_unlock(engine);
  ab_tls_context_release(old);
  return old != NULL;
}

bool ab__services_hasten(ab_engine *engine) {
  bool some = false;
  for (ab_service *service = engine->services; service; service = service->next) {
    if (service->watch.fd >= 0 && ab_listener_hasten(service->listener)) some = true;
  }
  return some;
}

void ab__services_unset(ab_engine *engine) {
  for (ab_service *service = engine->services; service; service = service->next) {
    ab_poller_unset(engine->poller, &service->watch, false);
  }
  if (engine->balance) ab__balance_listen(engine, false);
}

void ab__services_close(ab_engine *engine) {
  if (engine->balance && engine->poller) ab__balance_listen(engine, false);
  for (ab_service *service = engine->services; service; service = service->next) {
    if (service->watch.fd < 0) continue;
    /* Siblings, and the process after this one, may have the socket open: closing ends nothing. */
    if (engine->poller) ab_poller_unset(engine->poller, &service->watch, false);
    service->watch.fd = -1;
    service->budget = 0;
    ab_listener_close(service->listener);
  }
}

void ab_engine_close_listeners(ab_engine *engine) {
  ab_engine_lock(engine);
  engine->draining = true;
  ab__services_close(engine);
  ab_engine_unlock(engine);
}

void ab__services_fini(ab_engine *engine) {
  ab__services_close(engine);
  for (ab_service *service = engine->services, *next; service; service = next) {
    next = service->next;
    ab_listener_fini(service->listener);
    free_service(service);
  }
}
