/* The engine's life: from its memory to the end of a drain. turns.c turns it. */
#include <string.h>

#include "base/bits.h"
#include "engine/conn.h"
#include "engine/hold.h"
#include "engine/http2.h"

#define SPARE_OUTBOXES 256
#define SPARE_CHUNKS   256

ab_engine *ab_engine_init(const ab_mem *mem, const ab_limits *limits, ab_outbox_release release,
                          void *ctx) {
  ab_engine *engine = ab_alloc_zero(mem, sizeof(*engine));
  if (!engine) return NULL;
  engine->mem = *mem;
  engine->stats = &engine->own_stats;
  engine->default_service = (ab_service){.watch.fd = -1, .engine = engine, .limits = *limits};
  engine->date_second = -1;
  engine->max_queue = UINT32_MAX;
  atomic_init(&engine->date, engine->dates[0]);
  ab_list_init(&engine->ready);
  ab_list_init(&engine->later);
  ab_list_init(&engine->app_later);
  ab_list_init(&engine->batch);
  ab_list_init(&engine->requests);
  ab_list_init(&engine->sessions);
  ab_list_init(&engine->handshakes);
  ab_list_init(&engine->signers);
  ab_list_init(&engine->events);
  ab_list_init(&engine->dead);
  ab_list_init(&engine->taken_over);
  ab_list_init(&engine->readers);
  ab_list_init(&engine->cold);
  engine->storage = &ab__storage_calls;
  ab_link_scratch_init(&engine->scratch, &engine->mem, &engine->now, &engine->date_second);
  engine->descriptors = ab_fd_most();
  ab_wheel_init(&engine->wheel, 0);
  ab_slab_pool_init(&engine->conns, &engine->mem, sizeof(ab_conn));
  ab_slab_pool_init(&engine->exchanges, &engine->mem, sizeof(ab_exchange));
  ab_slab_pool_init(&engine->streams, &engine->mem, sizeof(ab_stream));

  engine->touched = ab_alloc(mem, AB_STEP_CONNS * sizeof(ab_conn *));
  engine->outboxes = ab_outbox_pool_init(&engine->mem, release, ctx, SPARE_OUTBOXES, SPARE_CHUNKS);
  if (!engine->touched || !engine->outboxes || ab__engine_make_room(engine, limits) != AB_OK) {
    ab_engine_fini(engine);
    return NULL;
  }
  return engine;
}

typedef void (*visit)(ab_conn *conn);

static void visit_used(void *ctx, void *one) {
  ab_conn *conn = one;
  if (conn->state != AB_CONN_FREE && conn->state != AB_CONN_DEAD) (*(const visit *)ctx)(conn);
}

static void each_conn(ab_engine *engine, visit fn) {
  ab_slab_each(&engine->conns, visit_used, &fn);
}

void ab_engine_set_half_close(ab_engine *engine, enum ab_half_close meaning, bool watch) {
  engine->half_close = (uint8_t)meaning;
  engine->watches_peers = watch;
}

int ab_engine_attach(ab_engine *engine, ab_poller *poller, ab_nsec now) {
  ab_poller_lock(poller);
  engine->poller = poller;
  engine->now = engine->busy_until = now;
  ab_wheel_fini(&engine->wheel);
  ab_wheel_init(&engine->wheel, now);
  int err = AB_OK;
  for (ab_service *service = engine->services; service && !err; service = service->next) {
    if (service->watch.fd >= 0) err = ab_poller_set(poller, &service->watch, AB_POLL_IN);
  }
  ab_poller_unlock(poller);
  if (err) ab_engine_detach(engine);
  return err == AB_OK || err == AB_ENOMEM ? err : AB_ESYS;
}

void ab_engine_detach(ab_engine *engine) {
  ab_poller *poller = engine->poller;
  if (!poller) return;
  ab_engine_abort(engine);
  ab_poller_lock(poller);
  ab__services_unset(engine);
  ab__conns_free_dead(engine);
  engine->touched_count = 0;
  engine->poller = NULL;
  ab_poller_unlock(poller);
  ab__loads_fini(engine);
}

static ab_figures figures_of(const ab_engine *engine) {
  ab_figures figures = *engine->stats;
  if (engine->stats == &engine->own_stats) return figures;
  ab_figures_since(&figures, &engine->own_stats);
  ab_figures_show_now(&figures, &engine->own_stats);
  return figures;
}

/* What was counted elsewhere stays there. */
static void count_alone(ab_engine *engine) {
  engine->own_stats = figures_of(engine);
  engine->stats = &engine->own_stats;
}

void ab_engine_count_in(ab_engine *engine, ab_figures *figures) {
  ab_figures *last = engine->stats;
  count_alone(engine);
  if (last != engine->stats) ab_figures_clear_now(last);
  if (!figures) return;
  ab_figures own = engine->own_stats;
  ab_figures_clear_now(figures);
  engine->own_stats = ab_figures_load(figures);
  ab_figures_show_now(&engine->own_stats, &own);
  ab_figures_add(figures, &own);
  engine->stats = figures;
}

ab_nsec ab_engine_show_now(ab_engine *engine) {
  ab_engine_lock(engine);
  ab_figures_show_now(engine->stats, &engine->own_stats);
  if (engine->rows) ab_rows_show(engine->rows);
  ab_nsec turned = engine->turned_at;
  ab_engine_unlock(engine);
  return turned;
}

static void unregister_conn(ab_conn *conn) {
  conn->registered = false;
  conn->link.watch.silent = 0; /* no poller listens */
}

void ab_engine_abandon(ab_engine *engine) {
  count_alone(engine);
  ab__loads_fini(engine);
  engine->poller = NULL;
  each_conn(engine, unregister_conn);
  ab__taken_over_forget(engine, false);
}

void ab_engine_fini(ab_engine *engine) {
  ab_engine_detach(engine);
  ab_engine_abort(engine); /* what an abandoned poller has left */
  ab__services_fini(engine);
  ab_link_scratch_fini(&engine->scratch);
  ab_slab_pool_fini(&engine->conns);
  ab_slab_pool_fini(&engine->exchanges);
  ab_slab_pool_fini(&engine->streams);
  if (engine->outboxes) ab_outbox_pool_fini(engine->outboxes);
  ab_wheel_fini(&engine->wheel);
  ab_arena_fini(&engine->arena, &engine->mem);
  ab_arena_fini(&engine->next_arena, &engine->mem);
  ab_free(&engine->mem, engine->touched);
  ab_free(&engine->mem, engine->hold);
  ab_engine_part(engine);
  ab_free(&engine->mem, engine->path_times);
  ab_free(&engine->mem, engine->methods);
  ab__health_fini(engine);
  ab_mem mem = engine->mem;
  ab_free(&mem, engine);
}

/* The set, the views of its names and their bytes, in one piece of memory. */
static bool methods_size(const ab_methods *methods, size_t *size) {
  if (!ab_mul_size(methods->count, sizeof(ab_view), size)) return false;
  for (size_t i = 0; i < methods->count; i++) {
    if (!ab_add_size(*size, methods->names[i].len, size)) return false;
  }
  return ab_add_size(*size, sizeof(ab_methods), size);
}

int ab_engine_set_methods(ab_engine *engine, const ab_methods *methods) {
  size_t size;
  if (!methods_size(methods, &size)) return AB_ENOMEM;
  ab_methods *copy = ab_alloc(&engine->mem, size);
  if (!copy) return AB_ENOMEM;
  ab_view *names = (ab_view *)(copy + 1);
  char *text = (char *)(names + methods->count);
  for (size_t i = 0; i < methods->count; i++) {
    ab_view name = methods->names[i];
    names[i] = (ab_view){text, name.len};
    if (name.len > 0) memcpy(text, name.ptr, name.len);
    text += name.len;
  }
  *copy = (ab_methods){.names = names, .count = methods->count, .any = methods->any};
  ab_free(&engine->mem, engine->methods);
  engine->methods = copy;
  return AB_OK;
}

static void drain_conn(ab_conn *conn) {
  ab__conn_protocol(conn)->drain(conn);
}

/* A connection in the kernel's queue has been promised service. */
static void accept_the_last(ab_engine *engine) {
  engine->retired = true;
  for (ab_service *service = engine->services; service; service = service->next) {
    service->budget = AB_DRAIN_ACCEPTS;
    while (ab__service_accept(service)) continue;
  }
}

void ab_engine_drain(ab_engine *engine, ab_nsec now) {
  ab_engine_lock(engine);
  engine->now = now;
  if (!engine->draining) {
    if (!engine->handed_over) accept_the_last(engine);
    engine->draining = true;
    ab__services_close(engine);
    if (engine->balance) ab__balance_adopt_the_last(engine);
    each_conn(engine, drain_conn);
    if (engine->balance && engine->handed_over) ab__balance_hand_on_all(engine);
  }
  ab_engine_unlock(engine);
}

void ab_engine_hand_over(ab_engine *engine) {
  ab_engine_lock(engine);
  engine->handed_over = true;
  for (ab_service *service = engine->services; service; service = service->next) {
    ab_listener_keep(service->listener);
  }
  ab_engine_unlock(engine);
}

ab_nsec ab_engine_retire(ab_engine *engine) {
  ab_nsec hasten = 0;
  ab_engine_lock(engine);
  if (!engine->retired) {
    engine->retired = true;
    if (ab__services_hasten(engine)) hasten = AB_HASTEN_TIME;
  }
  ab_engine_unlock(engine);
  return hasten;
}

ab_nsec ab_engine_idle_since(ab_engine *engine) {
  ab_engine_lock(engine);
  const ab_figures *stats = &engine->own_stats;
  bool busy = stats->in_app > 0 || stats->waiting > 0 || stats->bodies.coming > 0;
  ab_nsec since = busy ? 0 : engine->busy_until;
  ab_engine_unlock(engine);
  return since;
}

static void refuse_conn(ab_conn *conn) {
  ab__conn_protocol(conn)->refuse(conn);
}

void ab_engine_refuse(ab_engine *engine, ab_nsec now) {
  ab_engine_lock(engine);
  engine->now = now;
  if (!engine->refusing) {
    engine->refusing = true;
    each_conn(engine, refuse_conn);
  }
  ab_engine_unlock(engine);
}

void ab_engine_abort(ab_engine *engine) {
  ab_engine_lock(engine);
  each_conn(engine, ab__conn_drop);
  ab__taken_over_forget(engine, true);
  ab_engine_unlock(engine);
}

ab_figures ab_engine_get_stats(ab_engine *engine) {
  ab_engine_lock(engine);
  ab_figures stats = figures_of(engine);
  ab_engine_unlock(engine);
  return stats;
}

const ab_limits *ab_engine_limits(const ab_engine *engine) {
  return &engine->default_service.limits;
}

const char *ab_engine_date(const ab_engine *engine) {
  /* Acquire: partner is the store in refresh_date. */
  return atomic_load_explicit(&engine->date, memory_order_acquire);
}
