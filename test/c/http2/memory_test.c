/* Memory: each allocation fails in turn, and what a session takes. */
#include "peer.h"

/* Answers with all that there is; what fails for want of memory is given up. */
static void answer_fully(server *self AB_UNUSED, server_stream *one) {
  const char *lines =
      "Content-Type: text/x\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
  if (one->error) {
    if (server_answer(one, ab_http_error_status(one->error), "", 0) != AB_OK) {
      ab_h2_reset(one->stream, AB_H2_INTERNAL_ERROR);
    }
    return;
  }
  ab_h2_widen(one->stream);
  if (ab_h2_inform(one->stream, 103, "Link: </a>\r\n", 12) != AB_OK ||
      ab_h2_set_trailers(one->stream, "x-t: 1\r\n", 8) != AB_OK ||
      server_answer(one, 200, lines, 40000) != AB_OK) {
    ab_h2_reset(one->stream, AB_H2_INTERNAL_ERROR);
  }
}

static const nghttp2_nv late[] = {{(uint8_t *)"x-l", (uint8_t *)"1", 3, 1, 0}};

static ssize_t read_late(nghttp2_session *session, int32_t id, uint8_t *buf, size_t most AB_UNUSED,
                         uint32_t *flags, nghttp2_data_source *source AB_UNUSED,
                         void *user AB_UNUSED) {
  buf[0] = 'b';
  *flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  CHECK_INT(0, nghttp2_submit_trailer(session, id, late, 1));
  return 1;
}

static void ask_much(server *s, peer *p) {
  char value[3000];
  memset(value, 'v', sizeof value);
  value[sizeof value - 1] = 0;
  peer_request(p, PAIRS(PAIRS_OF("GET", "/"), "x-a", value, "cookie", "a=1", "cookie", "b=2"),
               false);
  peer_request(p, PAIRS(PAIRS_OF("TRACE", "/")), false);
  nghttp2_nv fields[] = {peer_pair(":method", "POST"), peer_pair(":scheme", "https"),
                         peer_pair(":path", "/"), peer_pair(":authority", "a.test")};
  nghttp2_data_provider provider = {.read_callback = read_late};
  CHECK(nghttp2_submit_request(p->session, NULL, fields, 4, &provider, NULL) > 0);
  play_with(s, p, 0, 20000);
  (void)!ab_h2_warn_of_end(s->h2);
  play(s, p);
  (void)!ab_h2_end_session(s->h2);
  play(s, p);
}

/* Returns whether memory was refused. */
static bool play_failing(size_t fail_at) {
  server s;
  peer p;
  peer_init(&p);
  if (server_init(&s, NULL, fail_at)) {
    s.on_request = answer_fully;
    ask_much(&s, &p);
    CHECK(ab_h2_is_over(s.h2) || ab_h2_streams(s.h2) > 0 || s.mem.calls < fail_at);
  } else {
    CHECK(fail_at > 0);
  }
  bool refused = s.mem.calls >= fail_at && fail_at > 0;
  if (!refused) {
    CHECK_INT(40000, p.streams[1].body_len);
    CHECK_INT(40000, p.streams[5].body_len);
    CHECK_BYTES(":status=501;|", p.streams[3].heads, p.streams[3].heads_len);
  }
  peer_fini(&p);
  server_fini(&s);
  return refused;
}

CHECK_CASE(each_allocation_may_fail) {
  CHECK(!play_failing(0));
  size_t fail_at = 1;
  while (play_failing(fail_at)) fail_at++;
  CHECK(fail_at > 50);
}

/* An allocator that knows how much it has given. */
typedef struct counting {
  ab_mem mem;
  size_t bytes, most;
} counting;

static void *count(void *ctx, void *ptr, size_t size) {
  counting *self = ctx;
  size_t *block = ptr ? (size_t *)ptr - 2 : NULL;
  if (block) self->bytes -= *block;
  if (size == 0) {
    free(block);
    return NULL;
  }
  block = realloc(block, size + 2 * sizeof(size_t));
  if (!block) abort();
  *block = size;
  self->bytes += size;
  if (self->bytes > self->most) self->most = self->bytes;
  return block + 2;
}

static void wait_for_test(server *self AB_UNUSED, server_stream *one AB_UNUSED) {}

CHECK_CASE(a_stream_is_small) {
  counting memory = {.mem = {count, &memory}};
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  ab_h2_fini(s.h2);
  s.h2 = ab_h2_init(&memory.mem, &s.limits, NULL, &server_calls, &s);
  s.on_request = wait_for_test;
  s.keeps_heads = true;
  peer_init(&p);
  play(&s, &p);
  size_t before = memory.bytes;
  for (int i = 0; i < 100; i++) {
    peer_request(&p, PAIRS(PAIRS_OF("GET", "/"), "user-agent", "a browser", "accept", "*/*"),
                 false);
  }
  play(&s, &p);
  size_t each = (memory.bytes - before) / 100;
  ab_list_each (node, tmp, &s.streams) {
    server_drop_head(&s, AB_CONTAINER_OF(node, server_stream, node));
  }
  printf("a stream: %zu bytes, %zu without its head\n", each, (memory.bytes - before) / 100);
  CHECK(each < 1200);
  peer_fini(&p);
  server_fini(&s);
  CHECK_INT(0, memory.bytes);
}

/* What a session keeps after 200 requests of 100 different fields, the table of its fields full. */
CHECK_CASE(an_idle_session_is_small) {
  counting memory = {.mem = {count, &memory}};
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  ab_h2_fini(s.h2);
  s.h2 = ab_h2_init(&memory.mem, &s.limits, NULL, &server_calls, &s);
  peer_init(&p);
  play(&s, &p);
  size_t fresh = memory.bytes;
  for (int i = 0; i < 200; i++) {
    char value[40];
    sprintf(value, "something of its own %d", i);
    peer_request(&p, PAIRS(PAIRS_OF("GET", "/"), "x-field", value), false);
    play(&s, &p);
  }
  CHECK_INT(0, ab_h2_streams(s.h2));
  printf("a session: %zu bytes when new, %zu after 200 requests, at most %zu\n", fresh,
         memory.bytes, memory.most);
  CHECK(fresh < 30000);
  CHECK(memory.bytes < 40000);
  peer_fini(&p);
  server_fini(&s);
  CHECK_INT(0, memory.bytes);
}

CHECK_MAIN()
