/* How responses say where their content ends and what becomes of the connection, each written into
 * a block of the promised size, so that ASan sees one byte more. */
#include "http1/response.h"

#include "check.h"

#define LENGTH  "Content-Length: "
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* Frames a response for each of the peers: that of HTTP/1.1, that of HTTP/1.0, and HEAD. */
static ab_content frame(ab_content content, bool head, bool http_1_0, const char *expected) {
  char *dst = malloc(AB_FRAMING_MAX);
  char *end = ab_write_framing(dst, &content, head, http_1_0);
  CHECK_BYTES(expected, dst, (size_t)(end - dst));
  free(dst);
  return content;
}

CHECK_CASE(a_length_that_is_known_is_said) {
  for (int peer = 0; peer < 3; peer++) {
    for (int declared = 0; declared < 2; declared++) {
      ab_content content = {.status = 200, .length = 5, .declared = declared, .known = !declared};
      content = frame(content, peer == 2, peer == 1, LENGTH "5\r\n");
      CHECK(content.has_length && !content.chunked && !content.closes);
      CHECK_INT(peer == 2, content.none);
    }
  }
  frame((ab_content){.status = 200, .length = UINT64_MAX, .known = true}, false, false,
        LENGTH "18446744073709551615\r\n");
  ab_content both = {.status = 200, .length = 5, .declared = true, .known = true};
  frame(both, false, false, LENGTH "5\r\n");
}

CHECK_CASE(without_a_length_it_comes_in_chunks) {
  ab_content content = {.status = 200};
  content = frame(content, false, false, CHUNKED);
  CHECK(content.chunked && !content.has_length && !content.closes && !content.none);
  content = frame((ab_content){.status = 200}, false, true, "");
  CHECK(!content.chunked && content.closes); /* HTTP/1.0 knows none */
  content = frame((ab_content){.status = 200}, true, false, "");
  CHECK(!content.chunked && !content.closes && content.none);
}

CHECK_CASE(chunks_of_the_application_are_announced) {
  ab_content coded = {.status = 200, .coded = true, .known = true, .length = 9};
  ab_content content = frame(coded, false, false, CHUNKED);
  CHECK(!content.chunked && !content.has_length);
  content = frame(coded, true, false, CHUNKED);
  CHECK(!content.chunked && content.none);
}

CHECK_CASE(trailers_need_chunks) {
  ab_content content = {.status = 200, .known = true, .length = 5, .trailers = true};
  CHECK(frame(content, false, false, CHUNKED).chunked);
  CHECK(frame(content, false, true, LENGTH "5\r\n").has_length);
  content.declared = true; /* which leaves no room for them */
  CHECK(!frame(content, false, false, LENGTH "5\r\n").chunked);
}

CHECK_CASE(some_have_no_content) {
  ab_content some = {.status = 204, .known = true, .length = 5};
  CHECK(frame(some, false, false, "").none);
  some.declared = true;
  CHECK(!frame(some, false, false, "").has_length);
  some = (ab_content){.status = 205, .known = true, .length = 5};
  CHECK(frame(some, false, false, LENGTH "0\r\n").none);
  some.status = 304;
  CHECK(frame(some, false, false, "").none);
  some.declared = true; /* what a 200 would have had */
  CHECK(frame(some, false, false, LENGTH "5\r\n").none);
  some = (ab_content){.status = 304};
  CHECK(frame(some, false, false, "").none);
  CHECK(!frame(some, false, true, "").closes);
}

static void check_end(const char *expected, enum ab_write_connection connection) {
  char *dst = malloc(AB_HEAD_END_MAX);
  char *end = ab_write_head_end(dst, connection);
  CHECK_BYTES(expected, dst, (size_t)(end - dst));
  free(dst);
}

CHECK_CASE(heads_end_with_the_connection) {
  check_end("\r\n", AB_WRITE_KEEP);
  check_end("Connection: keep-alive\r\n\r\n", AB_WRITE_KEEP_IN_1_0);
  check_end("Connection: close\r\n\r\n", AB_WRITE_CLOSE);
  char line[2];
  CHECK_BYTES("\r\n", line, (size_t)(ab_write_empty_line(line) - line));
}

CHECK_CASE(chunk_heads_are_written) {
  char *dst = malloc(AB_CHUNK_HEAD_MAX);
  for (int bit = 0; bit < 64; bit++) {
    char expected[32];
    uint64_t size = UINT64_C(1) << bit | (bit ? 1 : 0);
    snprintf(expected, sizeof(expected), "%" PRIx64 "\r\n", size);
    char *end = ab_write_chunk_head(dst, size);
    CHECK_BYTES(expected, dst, (size_t)(end - dst));
  }
  char *end = ab_write_chunk_head(dst, UINT64_MAX);
  CHECK_BYTES("ffffffffffffffff\r\n", dst, (size_t)(end - dst));
  end = ab_write_chunk_head(dst, 500);
  CHECK_BYTES("1f4\r\n", dst, (size_t)(end - dst));
  free(dst);
}

static void check_error(const char *expected, size_t expected_content, int status,
                        enum ab_write_connection connection, bool head) {
  char *dst = malloc(AB_ERROR_MAX);
  size_t content = 999;
  ab_view date = {"Date: x\r\n", 9};
  char *end = ab_write_error(dst, status, date, connection, head, &content);
  CHECK_BYTES(expected, dst, (size_t)(end - dst));
  CHECK_INT(expected_content, content);
  free(dst);
}

CHECK_CASE(errors_are_written) {
  check_error("HTTP/1.1 400 Bad Request\r\nDate: x\r\nContent-Type: text/plain\r\n"
              "Content-Length: 16\r\nConnection: close\r\n\r\n400 Bad Request\n",
              16, 400, AB_WRITE_CLOSE, false);
  check_error("HTTP/1.1 503 Service Unavailable\r\nDate: x\r\nContent-Type: text/plain\r\n"
              "Content-Length: 24\r\nRetry-After: 1\r\nConnection: keep-alive\r\n\r\n"
              "503 Service Unavailable\n",
              24, 503, AB_WRITE_KEEP_IN_1_0, false);
  check_error("HTTP/1.1 500 Internal Server Error\r\nDate: x\r\nContent-Type: text/plain\r\n"
              "Content-Length: 26\r\n\r\n",
              0, 500, AB_WRITE_KEEP, true);
  /* The longest of all fits, with a real date. */
  char date[] = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", dst[AB_ERROR_MAX];
  for (int status = 400; status < 600; status++) {
    size_t content;
    ab_view line = {date, sizeof(date) - 1};
    char *end = ab_write_error(dst, status, line, AB_WRITE_KEEP_IN_1_0, false, &content);
    CHECK((size_t)(end - dst) < AB_ERROR_MAX);
  }
}

CHECK_MAIN()
