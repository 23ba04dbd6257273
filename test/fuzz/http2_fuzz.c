/* A session of HTTP/2 gets what libFuzzer invents, behind the preface and SETTINGS. */
#include "fuzz.h"

#include "server.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"

static void never(server *self, server_stream *one) {
  (void)self;
  (void)one;
}

static void answer(server *self, server_stream *one) {
  (void)self;
  int status = one->error ? ab_http_error_status(one->error) : 200;
  require(server_answer(one, status, "x-a: 1\r\n", 70000) == AB_OK, "there is memory");
  if (one->error) ab_h2_reset(one->stream, AB_H2_NO_ERROR);
}

/* What was said is whole frames. */
static void take_output(server *s) {
  size_t len;
  char *bytes = server_send(s, &len, UINT64_MAX);
  for (size_t at = 0; at < len;) {
    const uint8_t *head = (const uint8_t *)bytes + at;
    require(len - at >= 9, "a frame has a header");
    size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    require(size <= 16384 && len - at - 9 >= size, "a frame is whole");
    at += 9 + size;
  }
  free(bytes);
}

static void check_streams(server *s) {
  uint32_t open = 0;
  ab_list_each (node, next, &s->streams) {
    server_stream *one = AB_CONTAINER_OF(node, server_stream, node);
    open += !one->closed;
    require(one->error == AB_OK || (one->error > AB_HTTP_ERROR_BASE && one->error < -8),
            "an error is of the table");
  }
  require(open == ab_h2_streams(s->h2), "each stream is told, and closed once");
  require(open <= s->limits.max_streams, "streams have a number");
}

/* Plays the input; the app's events are in s->events. */
static void play(fuzz_input *input, server *s, bool answers) {
  s->on_request = answers ? answer : never;
  require(server_receive(s, PREFACE, sizeof PREFACE - 1) == AB_OK, "the preface is one");
  for (size_t at = 0; at < input->len && s->receive == AB_OK;) {
    size_t step = fuzz_next_segment(input, at), rest = input->len - at;
    if (step > rest) step = rest;
    (void)server_receive(s, input->bytes + at, step);
    at += step;
    if (answers) take_output(s);
    check_streams(s);
  }
  take_output(s);
  require(s->mem.live < 20000, "memory is bounded");
}

/* What the app has seen, but for the ends of streams, which depend on what was sent meanwhile. */
static void check_same(server *a, server *b) {
  ab_list *x = a->streams.next, *y = b->streams.next;
  for (; x != &a->streams && y != &b->streams; x = x->next, y = y->next) {
    server_stream *one = AB_CONTAINER_OF(x, server_stream, node);
    server_stream *other = AB_CONTAINER_OF(y, server_stream, node);
    require(one->error == other->error, "the verdicts are the same");
    require(one->ended == other->ended, "the ends are the same");
    require(one->body_len == other->body_len &&
                (one->body_len == 0 || memcmp(one->body, other->body, one->body_len) == 0),
            "the bodies are the same");
    if (one->error) continue;
    require(strcmp(one->request, other->request) == 0, "the requests are the same");
    require(strcmp(one->fields, other->fields) == 0, "the fields are the same");
    if (one->trailers) require(strcmp(one->trailers, other->trailers) == 0, "the trailers are too");
  }
  require(x == &a->streams && y == &b->streams, "the number of requests is the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input;
  if (!fuzz_open(data, size, &input)) return 0;
  server answering, cut, whole;
  require(server_init(&answering, &input.limits, 0), "there is memory");
  play(&input, &answering, true);
  server_fini(&answering);
  require(server_init(&cut, &input.limits, 0), "there is memory");
  play(&input, &cut, false);
  input.cut_count = 0;
  require(server_init(&whole, &input.limits, 0), "there is memory");
  play(&input, &whole, false);
  check_same(&cut, &whole);
  server_fini(&cut);
  server_fini(&whole);
  require(check_failures == 0, "the app is told what it may be told");
  return 0;
}
