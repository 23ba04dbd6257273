/* Parses a head whole and byte by byte in blocks of exact size (so that ASan sees an over-read),
 * and checks that both agree. */
#ifndef AB_TEST_HTTP1_PARSE_H
#define AB_TEST_HTTP1_PARSE_H

#include "check.h"

#include "http1/head.h"

#define PARSE_FIELDS 256

/* What the last parse() filled; the bytes live until the next one. */
static char *parse_bytes AB_UNUSED;
static ab_head parse_head AB_UNUSED;
static ab_field parse_fields[PARSE_FIELDS] AB_UNUSED;
static const ab_methods *parse_methods AB_UNUSED; /* NULL: the registry's */

static AB_UNUSED int parse_once(const char *bytes, size_t len, const ab_limits *limits,
                                ab_head_progress *progress) {
  free(parse_bytes);
  parse_bytes = malloc(len ? len : 1);
  if (!parse_bytes) abort();
  if (len) memcpy(parse_bytes, bytes, len);
  return ab_head_parse(parse_bytes, len, limits, parse_methods, progress, &parse_head,
                       parse_fields);
}

static AB_UNUSED int parse_growing(const char *bytes, size_t len, const ab_limits *limits) {
  ab_head_progress progress = {0};
  int result = AB_AGAIN;
  for (size_t here = 0; here <= len && result == AB_AGAIN; here++) {
    result = parse_once(bytes, here, limits, &progress);
  }
  return result;
}

/* The result of ab_head_parse for the bytes, however they arrive. */
static AB_UNUSED int parse_with(const char *bytes, size_t len, const ab_limits *limits) {
  int growing = parse_growing(bytes, len, limits);
  ab_head_progress progress = {0};
  int whole = parse_once(bytes, len, limits, &progress);
  CHECK_INT(whole, growing);
  return whole;
}

static AB_UNUSED int parse_byte_run(const char *bytes, size_t len) {
  const ab_limits limits = ab_limits_default();
  return parse_with(bytes, len, &limits);
}

static AB_UNUSED int parse(const char *text) {
  return parse_byte_run(text, strlen(text));
}

/* A request for "/" with Host and these lines, each of which ends with CRLF. */
static AB_UNUSED int parse_lines(const char *version, const char *lines) {
  char text[4096];
  snprintf(text, sizeof(text), "POST / %s\r\nHost: a.test\r\n%s\r\n", version, lines);
  return parse(text);
}

#define CHECK_VIEW(expected, view) CHECK_BYTES(expected, (view).ptr, (view).len)

#endif
