/* Responses as they are framed: heads and what they say of the connection, content in chunks, each
 * queued whole or not at all, whatever fails on the way, and trailers. An application that rescues
 * a failure goes on, and what the client gets is well framed. */
#include "engine/fixture.h"
#include "http1/write.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

enum kind { COPIED, LONG, BORROWED, MOVED, FROM_A_FILE, KINDS };

/* What an application's outbox needs, and who takes its slices over. */
typedef struct source {
  ab_outbox_pool *pool;
  ab_outbox *outbox;
  int lent, released;
  int adoptions, refuse_at; /* the call of adopt that fails, from 1; 0: none */
  int fd;                   /* of a file with ten bytes */
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

static char bytes[20000];

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
  self->fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(10, write(self->fd, "0123456789", 10));
}

static void source_fini(source *self) {
  ab_outbox_fini(self->outbox);
  CHECK_INT(self->lent, self->released);
  ab_outbox_pool_fini(self->pool);
  close(self->fd);
}

/* Queues the one chunk; an owner that was not taken is ours. */
static int queue(fixture *fx, ab_exchange *exchange, enum kind kind, source *from) {
  int error;
  adoption a = {fx, from};
  switch (kind) {
  case COPIED:
    return ab_exchange_write(exchange, "copied", 6);
  case LONG:
    return ab_exchange_write(exchange, bytes, sizeof bytes);
  case BORROWED:
    error = ab_exchange_borrow(exchange, bytes, sizeof bytes, fx);
    if (!error) fx->borrowed++;
    return error;
  case FROM_A_FILE:
    error = ab_exchange_file(exchange, from->fd, 0, 10, fx);
    if (!error) fx->borrowed++;
    return error;
  default:
    error = ab_exchange_move(exchange, from->outbox, adopt, &a);
    CHECK_INT(error ? 10 : 0, ab_outbox_pending(from->outbox));
    return error;
  }
}

static size_t framed(enum kind kind, char *out) {
  static const char *const contents[KINDS] = {
      [COPIED] = "copied", [MOVED] = "<lentlent>", [FROM_A_FILE] = "0123456789"};
  const char *content = contents[kind] ? contents[kind] : bytes;
  size_t len = contents[kind] ? strlen(content) : sizeof bytes;
  int head = sprintf(out, "%zx\r\n", len);
  memcpy(out + head, content, len);
  memcpy(out + head + len, "\r\n", 2);
  return (size_t)head + len + 2;
}

/* A chunk before it, the one that may fail, and one that goes out in its place or behind it. With
 * `fill` bytes in the outbox, so that its memory ends anywhere. Returns whether anything failed.
 */
static bool play(enum kind kind, size_t fail_at, int refuse_at, size_t fill) {
  static char expected[90000];
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  source from;
  source_init(&from, &fx, refuse_at);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, bytes, fill));
  exchange->framed = true;
  if (fail_at) fx.mem.fail_at = fx.mem.calls + fail_at;
  int error = queue(&fx, exchange, kind, &from);
  bool failed = (fail_at && fx.mem.calls >= fx.mem.fail_at) || refuse_at;
  fx.mem.fail_at = 0;
  CHECK_INT(failed ? AB_ENOMEM : AB_OK, error);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, "copied", 6));
  ab_exchange_flush(exchange);
  ab_engine_unlock(fx.engine);
  memcpy(expected, bytes, fill);
  size_t len = fill;
  if (!failed) len += framed(kind, expected + len);
  len += framed(COPIED, expected + len);
  expected[len] = '\0';
  CHECK_BYTES(expected, client_read(client, NULL), len);
  fixture_run(&fx);
  answer_held(&fx, 0, "x");
  close(client);
  source_fini(&from);
  fixture_fini(&fx);
  return failed;
}

CHECK_CASE(a_chunk_is_queued_whole_or_not_at_all) {
  memset(bytes, 'o', sizeof bytes);
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
CHECK_CASE(a_slice_that_cannot_be_adopted) {
  for (int refuse_at = 1; refuse_at <= 2; refuse_at++) CHECK(play(MOVED, 0, refuse_at, 7));
}

CHECK_CASE(nobody_is_there) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  source from;
  source_init(&from, &fx, 0);
  client_reset(client);
  fixture_run(&fx);
  for (int chunked = 0; chunked < 2; chunked++) {
    exchange->framed = chunked;
    for (enum kind kind = COPIED; kind < KINDS; kind++) {
      CHECK_INT(AB_EPEER, queue(&fx, exchange, kind, &from));
    }
  }
  answer_held(&fx, 0, "x");
  source_fini(&from);
  fixture_fini(&fx);
}

/* --- heads --- */

#define OK "HTTP/1.1 200 OK\r\n"

/* A status line, and room for the rest. */
static size_t status_line(char *text, int status) {
  return (size_t)(ab_write_status_line(text, status) - text);
}

/* Answers the request with five bytes, all at once or one after the other, and compares. */
static void check_answer(const char *request, bool at_once, bool closes, const char *expected) {
  fixture fx;
  int client = fixture_init_held(&fx, request);
  char text[200];
  size_t len = status_line(text, 200);
  ab_content content = {.status = 200, .known = true, .length = 5, .closes = closes};
  ab_engine_lock(fx.engine);
  len = (size_t)(ab_exchange_put_framing(fx.held[0], text + len, &content) - text);
  if (at_once) {
    CHECK_INT(AB_OK, ab_exchange_head(fx.held[0], text, len, &content, "hello", 5));
  } else {
    CHECK_INT(AB_OK, ab_exchange_head(fx.held[0], text, len, &content, NULL, 0));
    CHECK_INT(AB_OK, ab_exchange_write(fx.held[0], "hello", 5));
    CHECK_INT(AB_OK, ab_exchange_end(fx.held[0], NULL, 0));
  }
  ab_exchange_finish(fx.held[0], AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  const char *answer = client_read(client, &end);
  CHECK_BYTES(expected, answer, strlen(answer));
  CHECK_INT(strstr(expected, "close") != NULL, end);
  fixture_end(&fx, client);
}

CHECK_CASE(heads_say_what_becomes_of_the_connection) {
  static const char keep_1_0[] = "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  for (int at_once = 0; at_once < 2; at_once++) {
    check_answer(GET("/a"), at_once, false, OK "Content-Length: 5\r\n\r\nhello");
    check_answer(GET("/a"), at_once, true,
                 OK "Content-Length: 5\r\nConnection: close\r\n\r\nhello");
    check_answer(keep_1_0, at_once, false,
                 OK "Content-Length: 5\r\nConnection: keep-alive\r\n\r\nhello");
    check_answer("GET /a HTTP/1.0\r\n\r\n", at_once, false,
                 OK "Content-Length: 5\r\nConnection: close\r\n\r\nhello");
  }
}

CHECK_CASE(an_interim_head_comes_first) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  char text[200];
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_inform(fx.held[0], text, status_line(text, 103)));
  ab_engine_unlock(fx.engine);
  CHECK(strcmp("HTTP/1.1 103 Early Hints\r\n\r\n", client_read(client, NULL)) == 0);
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

CHECK_CASE(another_protocol_begins_behind_its_head) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  char text[200];
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_switch(fx.held[0], text, status_line(text, 101)));
  CHECK(!ab_exchange_keep_alive(fx.held[0]));
  ab_exchange_flush(fx.held[0]);
  ab_engine_unlock(fx.engine);
  CHECK(strcmp("HTTP/1.1 101 Switching Protocols\r\n\r\n", client_read(client, NULL)) == 0);
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

/* It takes the place of the application's, whatever that was to be. */
CHECK_CASE(errors_are_our_own) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  fx.held[0]->framed = true;
  size_t content = 0;
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_answer_error(fx.held[0], 500, &content));
  ab_exchange_flush(fx.held[0]);
  ab_engine_unlock(fx.engine);
  CHECK_INT(26, content);
  const char *answer = client_read(client, NULL);
  CHECK(strstr(answer, "HTTP/1.1 500 Internal Server Error\r\nDate: ") == answer);
  CHECK(strstr(answer, "\r\nContent-Length: 26\r\n\r\n500 Internal Server Error\n"));
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

/* --- the end --- */

static bool end_with_trailers(size_t fail_at) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  static char trailers[6000];
  memset(trailers, 't', sizeof trailers);
  ab_engine_lock(fx.engine);
  exchange->framed = true;
  CHECK_INT(AB_OK, ab_exchange_write(exchange, "copied", 6));
  if (fail_at) fx.mem.fail_at = fx.mem.calls + fail_at;
  int error = ab_exchange_end(exchange, trailers, sizeof trailers);
  bool failed = fail_at && fx.mem.calls >= fx.mem.fail_at;
  fx.mem.fail_at = 0;
  CHECK_INT(failed ? AB_ENOMEM : AB_OK, error);
  CHECK_INT(failed ? 11 : 11 + 3 + sizeof trailers + 2, ab_exchange_pending(exchange));
  ab_engine_unlock(fx.engine);
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
  return failed;
}

CHECK_CASE(trailers_are_queued_whole_or_not_at_all) {
  size_t fail_at = 1;
  while (end_with_trailers(fail_at)) fail_at++;
  CHECK(fail_at > 1);
}

CHECK_CASE(the_last_chunk_ends_it) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  ab_engine_lock(fx.engine);
  exchange->framed = true;
  CHECK_INT(AB_OK, ab_exchange_send(exchange, "hello", 5));
  CHECK_INT(AB_OK, ab_exchange_end(exchange, "T: 1\r\n", 6));
  ab_exchange_flush(exchange);
  ab_engine_unlock(fx.engine);
  CHECK(strcmp("5\r\nhello\r\n0\r\nT: 1\r\n\r\n", client_read(client, NULL)) == 0);
  exchange->framed = false;
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

CHECK_MAIN()
