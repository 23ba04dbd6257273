/* Parses a head whole and octet by octet in blocks of exact size (so that ASan sees an over-read),
 * and checks that both agree. */
#ifndef AB_TEST_HTTP1_PARSE_H
#define AB_TEST_HTTP1_PARSE_H

#include "check.h"

#include "http1/head.h"

#define PARSE_FIELDS 256

/* What the last parse() filled; the octets live until the next one. */
static char *parse_octets AB_UNUSED;
static ab_request parse_request AB_UNUSED;
static ab_field parse_fields[PARSE_FIELDS] AB_UNUSED;
static const ab_methods *parse_methods AB_UNUSED; /* NULL: the registry's */

static AB_UNUSED int parse_once(const char *octets, size_t len, const ab_limits *limits,
                                ab_head_progress *progress) {
  free(parse_octets);
  parse_octets = malloc(len ? len : 1);
  if (!parse_octets) abort();
  if (len) memcpy(parse_octets, octets, len);
  return ab_head_parse(parse_octets, len, limits, parse_methods, progress, &parse_request,
                       parse_fields);
}

static AB_UNUSED int parse_growing(const char *octets, size_t len, const ab_limits *limits) {
  ab_head_progress progress = {0};
  int result = AB_AGAIN;
  for (size_t here = 0; here <= len && result == AB_AGAIN; here++) {
    result = parse_once(octets, here, limits, &progress);
  }
  return result;
}

/* The result of ab_head_parse for the octets, however they arrive. */
static AB_UNUSED int parse_with(const char *octets, size_t len, const ab_limits *limits) {
  int growing = parse_growing(octets, len, limits);
  ab_head_progress progress = {0};
  int whole = parse_once(octets, len, limits, &progress);
  CHECK_INT(whole, growing);
  return whole;
}

static AB_UNUSED int parse_octet_run(const char *octets, size_t len) {
  const ab_limits limits = ab_limits_default();
  return parse_with(octets, len, &limits);
}

static AB_UNUSED int parse(const char *text) {
  return parse_octet_run(text, strlen(text));
}

/* A request for "/" with Host and these lines, each of which ends with CRLF. */
static AB_UNUSED int parse_lines(const char *version, const char *lines) {
  char text[4096];
  snprintf(text, sizeof(text), "POST / %s\r\nHost: a.test\r\n%s\r\n", version, lines);
  return parse(text);
}

#define CHECK_VIEW(expected, view) CHECK_OCTETS(expected, (view).ptr, (view).len)

#endif
