/* Bodies in chunks: each is decoded whole, and in segments of 1 to 7 bytes. */
#include "check.h"

#include "http1/chunk.h"
#include "http1/framing.h"
#include "http1/head.h"

static char body[1 << 16];
static size_t body_len, used_up;

/* Decodes in segments of `step` bytes, each in a block of exact size. */
static int decode_in_steps(const char *bytes, size_t len, const ab_limits *limits, size_t step) {
  ab_chunk_decoder decoder;
  ab_chunk_init(&decoder);
  body_len = used_up = 0;
  int result = AB_CHUNK_MORE;
  while (used_up < len && (result == AB_CHUNK_MORE || result == AB_CHUNK_DATA)) {
    size_t here = step < len - used_up ? step : len - used_up, used = 0;
    char *block = malloc(here);
    memcpy(block, bytes + used_up, here);
    ab_view data = {0};
    result = ab_chunk_decode(&decoder, limits, block, here, &used, &data);
    CHECK(used <= here);
    if (result == AB_CHUNK_MORE) CHECK_INT(here, used);
    if (result == AB_CHUNK_DATA) {
      CHECK(data.len > 0 && data.ptr >= block && data.ptr + data.len <= block + used);
      if (body_len + data.len <= sizeof(body)) memcpy(body + body_len, data.ptr, data.len);
      body_len += data.len;
    }
    used_up += used;
    free(block);
  }
  return result == AB_CHUNK_DATA ? AB_CHUNK_MORE : result;
}

static int decode_run(const char *bytes, size_t len, const ab_limits *limits) {
  int whole = decode_in_steps(bytes, len, limits, len);
  size_t whole_len = body_len, whole_used = used_up;
  for (size_t step = 1; step <= 7; step++) {
    CHECK_INT(whole, decode_in_steps(bytes, len, limits, step));
    CHECK_INT(whole_len, body_len);
    CHECK_INT(whole_used, used_up);
  }
  return whole;
}

static int decode(const char *text) {
  const ab_limits limits = ab_limits_default();
  return decode_run(text, strlen(text), &limits);
}

CHECK_CASE(chunks_become_a_body) {
  CHECK_INT(AB_CHUNK_DONE, decode("5\r\nhello\r\n00A\r\n0123456789\r\n1\r\n!\r\n0\r\n\r\nNEXT"));
  CHECK_BYTES("hello0123456789!", body, body_len);
  CHECK_INT(5 + 5 + 5 + 2 + 10 + 5 + 1 + 5, used_up);
  CHECK_INT(AB_CHUNK_DONE, decode("0\r\n\r\n"));
  CHECK_INT(0, body_len);
  CHECK_INT(AB_CHUNK_DONE, decode("a\r\n\r\n0\r\n\r\n\r\nX\r\n000\r\n\r\n"));
  CHECK_BYTES("\r\n0\r\n\r\n\r\nX", body, body_len);
  CHECK_INT(AB_CHUNK_MORE, decode("5\r\nhel"));
  CHECK_INT(AB_CHUNK_MORE, decode("0\r\n\r"));
}

CHECK_CASE(a_done_decoder_takes_nothing_more) {
  const ab_limits limits = ab_limits_default();
  ab_chunk_decoder decoder;
  size_t used;
  ab_view data;
  ab_chunk_init(&decoder);
  CHECK_INT(AB_CHUNK_DONE, ab_chunk_decode(&decoder, &limits, "0\r\n\r\n", 5, &used, &data));
  CHECK_INT(AB_CHUNK_DONE, ab_chunk_decode(&decoder, &limits, "5\r\n", 3, &used, &data));
  CHECK_INT(0, used);
}

CHECK_CASE(extensions_are_ignored) {
  static const char *const lines[] = {"5;a",
                                      "5;a=b",
                                      "5 ; a = b",
                                      "5\t;\ta\t=\t\"\t\"",
                                      "5;a;b;c=d",
                                      "5;a=\"\"",
                                      "5;a=\"x y;\\\"\\\\z\xff\" ;b",
                                      "5;a=b ;c"};
  char text[128];
  for (size_t i = 0; i < AB_ARRAY_LEN(lines); i++) {
    snprintf(text, sizeof(text), "%s\r\nhello\r\n0;x\r\n\r\n", lines[i]);
    CHECK_INT(AB_CHUNK_DONE, decode(text));
    CHECK_BYTES("hello", body, body_len);
  }
}

CHECK_CASE(other_size_lines_are_refused) {
  static const struct {
    const char *text; /* the last byte is the wrong one */
    int error;
  } bad[] = {
      {"+", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {"\r", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {";", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {" ", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {"0x", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {"5_", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {"10000000000000005", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {"00000000000000005", AB_HTTP_CHUNK_SIZE_SYNTAX},
      {"5\n", AB_HTTP_LINE_END},
      {"\n", AB_HTTP_LINE_END},
      {"5\rh", AB_HTTP_LINE_END},
      {"5 \r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;\r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;=", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a b", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a \r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=\r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a==", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=b \r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=b c", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=\"b\"c", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=\"b\r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=\"\\\r", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a=\"\x1b", AB_HTTP_CHUNK_EXTENSION_SYNTAX},
      {"5;a\n", AB_HTTP_LINE_END},
      {"5;a=\"\n", AB_HTTP_LINE_END},
      {"5;a\rX", AB_HTTP_LINE_END},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    const ab_limits limits = ab_limits_default();
    size_t len = strlen(bad[i].text);
    CHECK_INT(bad[i].error, decode(bad[i].text));
    if (len > 1) CHECK_INT(AB_CHUNK_MORE, decode_run(bad[i].text, len - 1, &limits));
  }
}

CHECK_CASE(chunk_data_ends_with_crlf) {
  CHECK_INT(AB_HTTP_CHUNK_DATA_END, decode("5\r\nhelloX"));
  CHECK_INT(AB_HTTP_CHUNK_DATA_END, decode("5\r\nhello\n"));
  CHECK_INT(AB_HTTP_CHUNK_DATA_END, decode("5\r\nhello\rX"));
  CHECK_INT(AB_HTTP_CHUNK_SIZE_SYNTAX, decode("5\r\nhello\r\n\r\n"));
}

CHECK_CASE(trailers_are_checked_and_dropped) {
  CHECK_INT(AB_CHUNK_DONE, decode("1\r\nZ\r\n0\r\nX-A: 1\r\nContent-Length:\t0\r\nY:\r\n\r\n"));
  CHECK_BYTES("Z", body, body_len);
  CHECK_INT(AB_HTTP_FIELD_NAME_SYNTAX, decode("0\r\n:"));
  CHECK_INT(AB_HTTP_FIELD_NAME_SYNTAX, decode("0\r\nX "));
  CHECK_INT(AB_HTTP_FIELD_NAME_SYNTAX, decode("0\r\nXXGET /next"));
  CHECK_INT(AB_HTTP_FIELD_VALUE_SYNTAX, decode("0\r\nX: \x01"));
  CHECK_INT(AB_HTTP_FIELD_FOLDED, decode("0\r\nX: a\r\n b"));
  CHECK_INT(AB_HTTP_FIELD_FOLDED, decode("0\r\n\t"));
  CHECK_INT(AB_HTTP_LINE_END, decode("0\r\nX: a\n"));
  CHECK_INT(AB_HTTP_LINE_END, decode("0\r\nX: a\rb"));
  CHECK_INT(AB_HTTP_LINE_END, decode("0\r\nX\n"));
  CHECK_INT(AB_HTTP_LINE_END, decode("0\r\n\n"));
  CHECK_INT(AB_HTTP_LINE_END, decode("0\r\n\rX"));
}

static int with_limits(ab_limits limits, const char *text) {
  return decode_run(text, strlen(text), &limits);
}

CHECK_CASE(line_and_trailer_limits_hold_to_the_byte) {
  ab_limits limits = ab_limits_default();
  limits.max_chunk_line = 5;
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0;ab\r\n\r\n"));
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0;abc\r\n\r\n"));
  CHECK_INT(AB_HTTP_CHUNK_LINE_TOO_LONG, with_limits(limits, "0;abcd\r\n\r\n"));
  limits = ab_limits_default();
  limits.max_chunk_extensions = 5; /* of the whole body, ";" included */
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "1;a\r\nx\r\n0;a\r\n\r\n"));
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "1;a\r\nx\r\n0;ab\r\n\r\n"));
  CHECK_INT(AB_HTTP_CHUNK_OVERHEAD, with_limits(limits, "1;a\r\nx\r\n0;abc\r\n\r\n"));
  limits = ab_limits_default();
  limits.max_trailer_size = 12; /* without the empty line */
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0\r\nX: yyyyyy\r\n\r\n"));
  limits.max_trailer_size = 11;
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0\r\nX: yyyyyy\r\n\r\n"));
  limits.max_trailer_size = 10;
  CHECK_INT(AB_HTTP_TRAILER_TOO_LONG, with_limits(limits, "0\r\nX: yyyyyy\r\n\r\n"));
  limits.max_trailer_size = 0;
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0\r\n\r\n"));
  limits = ab_limits_default();
  limits.max_trailer_count = 2;
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0\r\na:\r\n\r\n"));
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "0\r\na:\r\nb:\r\n\r\n"));
  CHECK_INT(AB_HTTP_TRAILER_TOO_LONG, with_limits(limits, "0\r\na:\r\nb:\r\nc:\r\n\r\n"));
}

CHECK_CASE(a_body_has_a_size) {
  ab_limits limits = ab_limits_default();
  limits.max_body_size = 6;
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"));
  CHECK_INT(AB_CHUNK_DONE, with_limits(limits, "2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"));
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, with_limits(limits, "2\r\nab\r\n5\r"));
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, decode("7fffffffffffffff\r"));
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, decode("ffffffffffffffff;"));
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, decode("5\r\nhello\r\nffffffffffffffff "));
  CHECK_INT(AB_CHUNK_MORE, decode("0fffffffffffffff\r\n")); /* the ceiling */
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, decode("1000000000000000\r"));
  limits.max_body_size = UINT64_MAX;
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, with_limits(limits, "1000000000000000\r"));
}

/* Plays `chunks` chunks of `size` bytes behind `first` bytes in one chunk. */
static int flood(size_t chunks, size_t size, size_t first) {
  const ab_limits limits = ab_limits_default();
  char *text = malloc(64 + first + chunks * (size + 16));
  size_t len = 0;
  if (first) {
    len = (size_t)sprintf(text, "%zx\r\n", first);
    memset(text + len, 'x', first);
    len += first;
    len += (size_t)sprintf(text + len, "\r\n");
  }
  for (size_t i = 0; i < chunks; i++) {
    len += (size_t)sprintf(text + len, "%zx\r\n%.*s\r\n", size, (int)size, "xxxxxxxx");
  }
  len += (size_t)sprintf(text + len, "0\r\n\r\n");
  int result = decode_in_steps(text, len, &limits, len);
  CHECK_INT(result, decode_in_steps(text, len, &limits, 5));
  free(text);
  return result;
}

CHECK_CASE(chunks_must_carry_something) {
  CHECK_INT(AB_CHUNK_DONE, flood(13000, 1, 0)); /* 65,000 bytes of framing */
  CHECK_INT(AB_HTTP_CHUNK_OVERHEAD, flood(14000, 1, 0));
  CHECK_INT(AB_CHUNK_DONE, flood(14000, 2, 0));
  CHECK_INT(AB_CHUNK_DONE, flood(14000, 1, 60000));
}

CHECK_MAIN()
