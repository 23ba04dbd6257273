/* The server's side in memory: a session, an outbox, and an app that notes what it was told and
 * answers as it is told to. */
#ifndef AB_TEST_HTTP2_SERVER_H
#define AB_TEST_HTTP2_SERVER_H

#include "check.h"

#include "base/list.h"
#include "http2/internal.h"

#define SERVER_EVENTS 65536

/* What the app has of a stream. */
typedef struct server_stream {
  ab_list node;
  ab_h2_stream *stream;
  ab_h2_head *head; /* while the app is told of it, or longer with keeps_heads */
  int error;
  bool ended, closed;
  char *body;
  size_t body_len;
  uint64_t left;  /* bytes of content that the app has still to give */
  uint64_t ready; /* of them, how many it has now */
  char digit;     /* what the content is made of */
  char *request;  /* "GET /path?query authority" */
  char *fields;   /* "name=value;" for each */
  char *trailers;
} server_stream;

typedef struct server {
  check_mem mem;
  ab_limits limits;
  ab_methods *methods;
  ab_h2 *h2;
  ab_outbox_pool *pool;
  ab_outbox *out;
  ab_nsec now;
  ab_list streams;
  /* "R1" request, "E1:-87" with an error, "D1" data, "e1" end, "c1" closed */
  char *events;
  size_t events_len;
  void (*on_request)(struct server *self, server_stream *one); /* NULL: 200 without content */
  bool keeps_data;                                             /* data is not consumed */
  bool keeps_heads;
  bool take_fails;
  int receive; /* what ab_h2_receive said last */
} server;

static AB_UNUSED char *server_text(ab_view view) {
  char *text = malloc(view.len + 1);
  if (!text) abort();
  if (view.len) memcpy(text, view.ptr, view.len);
  text[view.len] = 0;
  return text;
}

static AB_UNUSED void server_note(server *self, char what, const ab_h2_stream *stream) {
  if (self->events_len + 32 > SERVER_EVENTS) return;
  self->events_len += (size_t)sprintf(self->events + self->events_len, "%s%c%d",
                                      self->events_len ? " " : "", what, ab_h2_stream_id(stream));
}

static AB_UNUSED char *server_fields(const ab_request *request) {
  size_t len = 1;
  for (uint32_t i = 0; i < request->field_count; i++) {
    len += request->fields[i].name_len + request->fields[i].value_len + 2;
  }
  char *text = malloc(len), *p = text;
  if (!text) abort();
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    p += sprintf(p, "%.*s=%.*s;", (int)field->name_len, field->name, (int)field->value_len,
                 field->value);
  }
  *p = 0;
  return text;
}

static AB_UNUSED char *server_request_text(const ab_request *request) {
  char *text = malloc(request->method.len + request->target.len + request->authority.len + 3);
  if (!text) abort();
  sprintf(text, "%.*s %.*s %.*s", (int)request->method.len, request->method.ptr,
          (int)request->target.len, request->target.ptr, (int)request->authority.len,
          request->authority.ptr);
  return text;
}

/* Answers with this much content, all of which is there unless `ready` is changed. */
static AB_UNUSED int server_answer(server_stream *one, int status, const char *lines,
                                   uint64_t content) {
  one->left = one->ready = content;
  return ab_h2_respond(one->stream, status, lines, strlen(lines), content > 0);
}

static AB_UNUSED void server_drop_head(server *self, server_stream *one) {
  ab_free(self->h2->mem, one->head);
  one->head = NULL;
}

static AB_UNUSED void server_on_request(void *ctx, ab_h2_stream *stream, ab_h2_head *head,
                                        int error, bool ended) {
  server *self = ctx;
  server_stream *one = calloc(1, sizeof *one);
  if (!one) abort();
  ab_list_append(&self->streams, &one->node);
  one->stream = stream;
  one->error = error;
  one->ended = ended;
  one->digit = 'x';
  ab_h2_stream_set_app(stream, one);
  server_note(self, error ? 'E' : 'R', stream);
  CHECK_INT(error != 0, head == NULL);
  one->head = head;
  if (!error) {
    one->request = server_request_text(&head->request);
    one->fields = server_fields(&head->request);
  }
  if (self->on_request) {
    self->on_request(self, one);
  } else if (error) {
    (void)!server_answer(one, ab_http_error_status(error), "", 0);
    ab_h2_reset(stream, AB_H2_NO_ERROR);
  } else {
    (void)!server_answer(one, 200, "", 0);
  }
  if (!self->keeps_heads) server_drop_head(self, one);
}

static AB_UNUSED void server_on_data(void *ctx, ab_h2_stream *stream, const char *ptr, size_t len) {
  server *self = ctx;
  server_stream *one = ab_h2_stream_app(stream);
  one->body = realloc(one->body, one->body_len + len + 1);
  if (!one->body) abort();
  memcpy(one->body + one->body_len, ptr, len);
  one->body_len += len;
  one->body[one->body_len] = 0;
  CHECK(!one->ended && !one->closed && !one->error);
  if (!self->keeps_data) ab_h2_consume(stream, len);
}

static AB_UNUSED void server_on_end(void *ctx, ab_h2_stream *stream) {
  server *self = ctx;
  server_stream *one = ab_h2_stream_app(stream);
  CHECK(!one->ended && !one->closed && !one->error);
  CHECK(ab_h2_stream_has_ended(stream));
  one->ended = true;
  one->trailers = server_text(ab_h2_stream_trailers(stream));
  server_note(self, 'e', stream);
}

static AB_UNUSED void server_on_closed(void *ctx, ab_h2_stream *stream) {
  server *self = ctx;
  server_stream *one = ab_h2_stream_app(stream);
  CHECK(!one->closed);
  one->closed = true;
  server_note(self, 'c', stream);
  one->stream = NULL;
}

static AB_UNUSED size_t server_available(void *ctx AB_UNUSED, ab_h2_stream *stream, size_t most,
                                         bool *last) {
  server_stream *one = ab_h2_stream_app(stream);
  CHECK(!one->closed);
  size_t len = one->ready < most ? (size_t)one->ready : most;
  *last = len == one->left;
  return len;
}

static AB_UNUSED int server_take(void *ctx, ab_h2_stream *stream, ab_outbox *out, size_t len) {
  server *self = ctx;
  server_stream *one = ab_h2_stream_app(stream);
  if (self->take_fails) return AB_ENOMEM;
  char bytes[16384];
  CHECK(len <= sizeof bytes && len <= one->ready);
  memset(bytes, one->digit, len);
  one->left -= len;
  one->ready -= len;
  return ab_outbox_write(out, bytes, len);
}

static const ab_h2_calls server_calls AB_UNUSED = {
    .request = server_on_request,
    .data = server_on_data,
    .end = server_on_end,
    .closed = server_on_closed,
    .available = server_available,
    .take = server_take,
};

static AB_UNUSED void server_release(void *ctx AB_UNUSED, void *owner AB_UNUSED) {}

/* False if there was no memory: `fail_at` as in check_mem_init. `limits` NULL: the defaults. */
static AB_UNUSED bool server_init(server *self, const ab_limits *limits, size_t fail_at) {
  *self = (server){.limits = limits ? *limits : ab_limits_default()};
  self->now = 1000 * AB_NSEC_PER_SEC;
  ab_list_init(&self->streams);
  self->events = calloc(1, SERVER_EVENTS);
  self->pool = ab_outbox_pool_init(&ab_mem_libc, server_release, NULL, 0, 0);
  self->out = ab_outbox_init(self->pool);
  check_mem_init(&self->mem, fail_at);
  self->h2 = ab_h2_init(&self->mem.mem, &self->limits, self->methods, &server_calls, self);
  return self->h2 != NULL;
}

static AB_UNUSED void server_fini(server *self) {
  ab_list_each (node, tmp, &self->streams) {
    server_stream *one = AB_CONTAINER_OF(node, server_stream, node);
    if (one->head) server_drop_head(self, one);
  }
  ab_h2_fini(self->h2);
  CHECK_INT(0, self->mem.live);
  ab_list_each (node, tmp, &self->streams) {
    server_stream *one = AB_CONTAINER_OF(node, server_stream, node);
    CHECK(one->closed);
    free(one->body);
    free(one->request);
    free(one->fields);
    free(one->trailers);
    free(one);
  }
  free(self->events);
  ab_outbox_fini(self->out);
  ab_outbox_pool_fini(self->pool);
}

/* What the app has of the stream that came last, or with this id. */
static AB_UNUSED server_stream *server_last(server *self) {
  return AB_CONTAINER_OF(self->streams.prev, server_stream, node);
}

static AB_UNUSED server_stream *server_stream_of(server *self, int32_t id) {
  ab_list_each (node, tmp, &self->streams) {
    server_stream *one = AB_CONTAINER_OF(node, server_stream, node);
    if (one->stream && ab_h2_stream_id(one->stream) == id) return one;
  }
  return NULL;
}

/* Takes bytes in a block of their size, so that ASan sees an over-read. */
static AB_UNUSED int server_receive(server *self, const void *bytes, size_t len) {
  char *copy = malloc(len ? len : 1);
  if (!copy) abort();
  if (len) memcpy(copy, bytes, len);
  self->receive = ab_h2_receive(self->h2, copy, len, self->now);
  free(copy);
  return self->receive;
}

/* All that it has to say, to be freed; *len bytes. */
static AB_UNUSED char *server_send(server *self, size_t *len, uint64_t most) {
  char *bytes = malloc(1);
  *len = 0;
  ab_outbox_next_op next;
  int result = ab_h2_fill(self->h2, self->out, most);
  CHECK(result == AB_OK || (result == AB_ENOMEM && ab_h2_is_over(self->h2)));
  for (ab_outbox_next(self->out, &next); next.op == AB_OUTBOX_WRITE;
       ab_outbox_next(self->out, &next)) {
    bytes = realloc(bytes, *len + next.bytes + 1);
    if (!bytes) abort();
    for (int i = 0; i < next.iov_count; i++) {
      memcpy(bytes + *len, next.iov[i].iov_base, next.iov[i].iov_len);
      *len += next.iov[i].iov_len;
    }
    CHECK_INT(AB_OK, ab_outbox_shift(self->out, next.bytes));
  }
  return bytes;
}

#endif
