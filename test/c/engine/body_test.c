/* Bodies: decoding into room that is there or not, trailers, deadlines, and memory that runs out.
 */
#include "check.h"
#include "engine/body.h"
#include "http1/head.h"
#include "http/trailer.h"

#define START (1000 * AB_NSEC_PER_SEC)

static const ab_framing chunked = {.body = AB_BODY_CHUNKED};

static ab_framing of_length(uint64_t length) {
  return (ab_framing){.body = AB_BODY_LENGTH, .length = length, .has_length = true};
}

static ab_body *begin(check_mem *mem, const ab_limits *limits, ab_framing framing) {
  check_mem_init(mem, 0);
  ab_body *body = NULL;
  CHECK_INT(AB_OK, ab_body_init(&body, &mem->mem, limits, &framing));
  return body;
}

static void end(check_mem *mem, ab_body *body) {
  ab_body_fini(body);
  CHECK_INT(0, mem->live);
}

/* Decodes text of any length with room for `room` bytes at a time, in a block of its own size, so
 * that the sanitizer sees one byte too many. Content and bytes used come out; returns what ended
 * it. */
static int64_t decode(ab_body *body, const ab_limits *limits, const char *text, size_t len,
                      size_t room, char *content, size_t *content_len, size_t *used_up) {
  char *block = malloc(len ? len : 1), *out = malloc(room);
  memcpy(block, text, len);
  *used_up = 0;
  int64_t got;
  for (;;) {
    size_t used = 0;
    got = ab_body_decode(body, limits, block + *used_up, len - *used_up, &used, out, room);
    *used_up += used;
    if (got <= 0) break;
    CHECK((size_t)got <= room);
    memcpy(content + *content_len, out, (size_t)got);
    *content_len += (size_t)got;
  }
  free(block);
  free(out);
  return got;
}

CHECK_CASE(length_takes_no_more_than_its_own) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, of_length(5));
  char content[16];
  size_t len = 0, used;
  CHECK_INT(0, decode(body, &limits, "", 0, 4, content, &len, &used));
  CHECK_INT(0, decode(body, &limits, "he", 2, 1, content, &len, &used));
  CHECK_INT(2, used);
  CHECK(!body->done);
  CHECK_INT(3, ab_body_direct(body));
  CHECK_INT(0, decode(body, &limits, "lloGET /", 8, 2, content, &len, &used));
  CHECK_INT(3, used);
  CHECK_BYTES("hello", content, len);
  CHECK(body->done);
  CHECK_INT(5, body->size);
  CHECK_INT(0, ab_body_direct(body));
  CHECK_INT(1, mem.calls);
  end(&mem, body);
}

/* Received where it is wanted, with the decoder being told of it. */
CHECK_CASE(direct_bytes_count) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, of_length(10));
  ab_body_received(body, 9);
  CHECK(!body->done);
  ab_body_received(body, 1);
  CHECK(body->done);
  end(&mem, body);

  body = begin(&mem, &limits, chunked);
  char content[16];
  size_t len = 0, used;
  CHECK_INT(0, ab_body_direct(body));
  CHECK_INT(0, decode(body, &limits, "5\r\n", 3, 8, content, &len, &used));
  CHECK_INT(5, ab_body_direct(body));
  ab_body_received(body, 3);
  CHECK_INT(0, decode(body, &limits, "xy\r\n0\r\n\r\n", 9, 8, content, &len, &used));
  CHECK_BYTES("xy", content, len);
  CHECK(body->done);
  CHECK_INT(5, body->size);
  end(&mem, body);
}

/* Cut anywhere, with any room: the content is the same, and what follows stays. */
CHECK_CASE(chunks_in_any_segmentation) {
  static const char text[] =
      "3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nDigest: \t one two \r\nX:\r\n\r\nGET /";
  const size_t whole = sizeof(text) - 1 - 5;
  ab_limits limits = ab_limits_default();
  for (size_t room = 1; room < 14; room++) {
    for (size_t cut = 0; cut <= whole; cut++) {
      check_mem mem;
      ab_body *body = begin(&mem, &limits, chunked);
      char content[32];
      size_t len = 0, first, second;
      CHECK_INT(0, decode(body, &limits, text, cut, room, content, &len, &first));
      CHECK_INT(cut, first);
      CHECK_INT(cut == whole, body->done);
      CHECK(ab_body_ends_within(body, &limits, text + cut, whole - cut));
      CHECK_INT(0, decode(body, &limits, text + cut, sizeof(text) - 1 - cut, room, content, &len,
                          &second));
      CHECK_INT(whole, first + second);
      CHECK_BYTES("abc0123456789", content, len);
      CHECK(body->done);
      ab_view section = {body->trailers, body->trailers_len}, name, value;
      CHECK(ab_trailer_next(&section, &name, &value));
      CHECK_BYTES("Digest", name.ptr, name.len);
      CHECK_BYTES("one two", value.ptr, value.len);
      CHECK(ab_trailer_next(&section, &name, &value));
      CHECK_BYTES("X", name.ptr, name.len);
      CHECK_INT(0, value.len);
      CHECK(!ab_trailer_next(&section, &name, &value));
      end(&mem, body);
    }
  }
}

/* The usual body has no trailer: it costs no memory beside its structure. */
CHECK_CASE(no_trailers_cost_nothing) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, chunked);
  char content[16];
  size_t len = 0, used;
  CHECK_INT(0, decode(body, &limits, "1\r\nx\r\n0\r\n\r\n", 11, 16, content, &len, &used));
  CHECK(body->done);
  CHECK_INT(1, mem.calls);
  end(&mem, body);
}

/* Nobody reads: content and trailers are thrown away. */
CHECK_CASE(skipping_keeps_nothing) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  static const char text[] = "3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\nrest";
  ab_body *body = begin(&mem, &limits, chunked);
  size_t used;
  CHECK_INT(5, ab_body_decode(body, &limits, text, sizeof(text) - 1, &used, NULL, SIZE_MAX));
  CHECK_INT(sizeof(text) - 1 - 4, used);
  CHECK(body->done);
  CHECK(!body->trailers);
  CHECK_INT(1, mem.calls);
  end(&mem, body);
}

CHECK_CASE(where_the_end_is) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, of_length(3));
  CHECK(!ab_body_ends_within(body, &limits, "ab", 2));
  CHECK(ab_body_ends_within(body, &limits, "abc", 3));
  CHECK(ab_body_ends_within(body, &limits, "abcd", 4));
  end(&mem, body);

  static const char text[] = "3\r\nabc\r\n0\r\n\r\nGET";
  body = begin(&mem, &limits, chunked);
  for (size_t len = 0; len < sizeof(text); len++) {
    CHECK_INT(len >= sizeof(text) - 1 - 3, ab_body_ends_within(body, &limits, text, len));
  }
  CHECK(!ab_body_ends_within(body, &limits, "zz", 2));
  CHECK_INT(0, body->size); /* only a look */
  CHECK(!body->error);
  end(&mem, body);
}

/* What came before the error is good; the error stays. */
CHECK_CASE(chunk_errors_come_out) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  char content[16];
  size_t len = 0, used;
  ab_body *body = begin(&mem, &limits, chunked);
  CHECK_INT(AB_HTTP_CHUNK_DATA_END, decode(body, &limits, "1\r\nabc", 6, 8, content, &len, &used));
  CHECK_BYTES("a", content, len);
  CHECK_INT(AB_HTTP_CHUNK_DATA_END, decode(body, &limits, "\r\n", 2, 8, content, &len, &used));
  CHECK_INT(0, used);
  CHECK(!body->done);
  end(&mem, body);

  limits.max_body_size = 4;
  len = 0;
  body = begin(&mem, &limits, chunked);
  CHECK_INT(0, decode(body, &limits, "4\r\nabcd\r\n", 9, 8, content, &len, &used));
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, decode(body, &limits, "1\r\n", 3, 8, content, &len, &used));
  CHECK_BYTES("abcd", content, len);
  end(&mem, body);
}

CHECK_CASE(too_long_is_refused_unread) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  limits.max_body_size = 10;
  ab_body *body = NULL;
  ab_framing framing = of_length(11);
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, ab_body_init(&body, &mem.mem, &limits, &framing));
  CHECK(!body);
  CHECK_INT(0, mem.calls);
  end(&mem, begin(&mem, &limits, of_length(10)));

  limits.max_body_size = 0;
  framing = of_length(AB_BODY_CEILING + 1);
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, ab_body_init(&body, &mem.mem, &limits, &framing));
  end(&mem, begin(&mem, &limits, of_length(AB_BODY_CEILING)));
}

CHECK_CASE(deadline_counts_from_waiting_on) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  limits.min_body_rate = 0;
  ab_body *body = begin(&mem, &limits, of_length(100));
  ab_body_wait(body, START);
  CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  ab_body_wait(body, START + 7 * AB_NSEC_PER_SEC); /* another one who waits */
  CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  ab_body_waited(body, START + 8 * AB_NSEC_PER_SEC);
  ab_body_wait(body, START + 1000 * AB_NSEC_PER_SEC);
  CHECK_INT(START + 1030 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  end(&mem, body);
}

/* The rate is that of the time in which somebody waited. */
CHECK_CASE(rate_follows_what_came) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  limits.min_body_rate = 10;
  ab_body *body = begin(&mem, &limits, of_length(1000));
  ab_body_wait(body, START);
  CHECK_INT(START + 10 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  ab_body_received(body, 19);
  CHECK_INT(START + 11 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  ab_body_waited(body, START + 4 * AB_NSEC_PER_SEC);
  ab_body_wait(body, START + 500 * AB_NSEC_PER_SEC);
  CHECK_INT(START + 507 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  ab_body_waited(body, START + 507 * AB_NSEC_PER_SEC);
  ab_body_wait(body, START + 600 * AB_NSEC_PER_SEC); /* nothing is left of it */
  CHECK_INT(START + 600 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  /* However much has been paid in advance, the idle deadline holds. */
  ab_body_received(body, 900);
  CHECK_INT(START + 630 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  end(&mem, body);
}

/* 2^60 bytes at one byte a second: the product of seconds and nanoseconds does not fit. */
CHECK_CASE(rate_of_a_huge_body_does_not_wrap) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  limits.min_body_rate = 1;
  ab_body *body = begin(&mem, &limits, of_length(AB_BODY_CEILING));
  ab_body_wait(body, START);
  for (int bit = 33; bit < 60; bit++) {
    body->size = (uint64_t)1 << bit;
    CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
    body->size += 1234567;
    CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  }
  end(&mem, body);
}

/* Every allocation fails once: an error comes out and nothing leaks. */
CHECK_CASE(memory_runs_out) {
  ab_limits limits = ab_limits_default();
  static const char text[] =
      "1\r\nx\r\n0\r\nA: 1\r\nLonger: 0123456789012345678901234567890\r\n\r\n";
  size_t refused = 0;
  for (size_t n = 1;; n++) {
    check_mem mem;
    check_mem_init(&mem, n);
    ab_body *body = NULL;
    char content[8];
    size_t len = 0, used;
    int64_t result = ab_body_init(&body, &mem.mem, &limits, &chunked);
    for (size_t i = 0; i < sizeof(text) - 1 && result == 0; i++) {
      result = decode(body, &limits, text + i, 1, 8, content, &len, &used);
    }
    bool done = body && body->done;
    end(&mem, body);
    if (mem.calls < n) {
      CHECK(done);
      break;
    }
    CHECK_INT(AB_HTTP_NO_MEMORY, result);
    CHECK(!done);
    refused++;
  }
  CHECK(refused >= 3); /* the structure, and trailers that grow */
}

CHECK_CASE(trailers_stay_within_their_limits) {
  check_mem mem;
  ab_limits limits = ab_limits_default();
  limits.max_trailer_size = 8;
  for (size_t more = 0; more < 2; more++) {
    ab_body *body = begin(&mem, &limits, chunked);
    const char *text = more ? "0\r\nX: 1234\r\n\r\n" : "0\r\nX: 123\r\n\r\n";
    char content[8];
    size_t len = 0, used;
    CHECK_INT(more ? AB_HTTP_TRAILER_TOO_LONG : 0,
              decode(body, &limits, text, strlen(text), 8, content, &len, &used));
    CHECK_INT(!more, body->done);
    end(&mem, body);
  }
}

CHECK_MAIN()
