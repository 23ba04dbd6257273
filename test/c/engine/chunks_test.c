/* Chunks that are queued whole or not at all, whatever fails on the way: an application that
 * rescues the failure goes on, and what the client gets is well framed. */
#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

enum kind { COPIED, LONG, BORROWED, MOVED, KINDS };

/* What an application's outbox needs, and who takes its slices over. */
typedef struct source {
  ab_outbox_pool *pool;
  ab_outbox *outbox;
  int lent, released;
  int adoptions, refuse_at; /* the call of adopt that fails, from 1; 0: none */
} source;

static void release_lent(void *ctx, void *owner) {
  CHECK(owner == ctx);
  ((source *)ctx)->released++;
}

typedef struct adoption {
  fixture *fx;
  source *from;
} adoption;

static void *adopt(void *ctx, ab_outbox_slice *slice AB_UNUSED) {
  adoption *a = ctx;
  if (++a->from->adoptions == a->from->refuse_at) return NULL;
  a->fx->borrowed++;
  return a->fx;
}

static char octets[20000];

/* Two copies with two borrowed slices in between. */
static void source_init(source *self, fixture *fx, int refuse_at) {
  *self = (source){.refuse_at = refuse_at};
  self->pool = ab_outbox_pool_init(&fx->mem.mem, release_lent, self, 1, 1);
  self->outbox = ab_outbox_init(self->pool);
  CHECK_INT(AB_OK, ab_outbox_write(self->outbox, "<", 1));
  for (int i = 0; i < 2; i++) {
    CHECK_INT(AB_OK, ab_outbox_borrow(self->outbox, "lent", 4, self));
    self->lent++;
  }
  CHECK_INT(AB_OK, ab_outbox_write(self->outbox, ">", 1));
}

static void source_fini(source *self) {
  ab_outbox_fini(self->outbox);
  CHECK_INT(self->lent, self->released);
  ab_outbox_pool_fini(self->pool);
}

/* Queues the one chunk; an owner that was not taken is ours. */
static int queue(fixture *fx, ab_conn *conn, enum kind kind, source *from) {
  int error;
  adoption a = {fx, from};
  switch (kind) {
  case COPIED:
    return ab_conn_write_chunk(conn, "copied", 6);
  case LONG:
    return ab_conn_write_chunk(conn, octets, sizeof octets);
  case BORROWED:
    error = ab_conn_borrow_chunk(conn, octets, sizeof octets, fx);
    if (!error) fx->borrowed++;
    return error;
  default:
    error = ab_conn_move_chunk(conn, from->outbox, adopt, &a);
    CHECK_INT(error ? 10 : 0, ab_outbox_pending(from->outbox));
    return error;
  }
}

static size_t framed(enum kind kind, char *out) {
  size_t len = kind == MOVED ? 10 : kind == COPIED ? 6 : sizeof octets;
  int head = sprintf(out, "%zx\r\n", len);
  const char *content = kind == MOVED ? "<lentlent>" : kind == COPIED ? "copied" : octets;
  memcpy(out + head, content, len);
  memcpy(out + head + len, "\r\n", 2);
  return (size_t)head + len + 2;
}

/* A chunk before it, the one that may fail, and one that goes out in its place or behind it. With
 * `fill` octets in the outbox, so that its memory ends anywhere. Returns whether anything failed.
 */
static bool play(enum kind kind, size_t fail_at, int refuse_at, size_t fill) {
  static char expected[90000];
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  source from;
  source_init(&from, &fx, refuse_at);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_conn_write(conn, octets, fill));
  if (fail_at) fx.mem.fail_at = fx.mem.calls + fail_at;
  int error = queue(&fx, conn, kind, &from);
  bool failed = (fail_at && fx.mem.calls >= fx.mem.fail_at) || refuse_at;
  fx.mem.fail_at = 0;
  CHECK_INT(failed ? AB_ENOMEM : AB_OK, error);
  CHECK_INT(AB_OK, ab_conn_write_chunk(conn, "copied", 6));
  ab_conn_flush(conn);
  ab_engine_unlock(fx.engine);
  memcpy(expected, octets, fill);
  size_t len = fill;
  if (!failed) len += framed(kind, expected + len);
  len += framed(COPIED, expected + len);
  expected[len] = '\0';
  CHECK_OCTETS(expected, client_read(client, NULL), len);
  fixture_run(&fx);
  answer_held(&fx, 0, "x");
  close(client);
  source_fini(&from);
  fixture_fini(&fx);
  return failed;
}

static void a_chunk_is_queued_whole_or_not_at_all(void) {
  memset(octets, 'o', sizeof octets);
  static const size_t fills[] = {0, 1, 4040, 4050, 4060, 4070, 4080};
  size_t failures = 0;
  for (enum kind kind = COPIED; kind < KINDS; kind++) {
    for (size_t i = 0; i < AB_ARRAY_LEN(fills); i++) {
      size_t fail_at = 1;
      while (play(kind, fail_at, 0, fills[i])) fail_at++;
      failures += fail_at - 1;
    }
  }
  CHECK(failures > 10);
}

/* As when a file of it needs a descriptor of its own, and there is none. */
static void a_slice_that_cannot_be_adopted(void) {
  for (int refuse_at = 1; refuse_at <= 2; refuse_at++) CHECK(play(MOVED, 0, refuse_at, 7));
}

static void nobody_is_there(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  source from;
  source_init(&from, &fx, 0);
  client_reset(client);
  fixture_run(&fx);
  for (enum kind kind = COPIED; kind < KINDS; kind++) {
    CHECK_INT(AB_EPEER, queue(&fx, conn, kind, &from));
  }
  answer_held(&fx, 0, "x");
  source_fini(&from);
  fixture_fini(&fx);
}

CHECK_MAIN(CHECK_CASE(a_chunk_is_queued_whole_or_not_at_all),
           CHECK_CASE(a_slice_that_cannot_be_adopted), CHECK_CASE(nobody_is_there))
