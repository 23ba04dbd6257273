/* Trailer fields: taken apart, and which of them are to be believed. */
#include "check.h"

#include "http/trailer.h"

CHECK_CASE(fields_come_one_by_one) {
  static const char text[] = "A:\r\nBc: \t x y \t\r\nd:e:f\r\nE:   \r\n\r\nG: incomplete";
  static const char *const expected[][2] = {{"A", ""}, {"Bc", "x y"}, {"d", "e:f"}, {"E", ""}};
  char *block = malloc(sizeof(text) - 1);
  memcpy(block, text, sizeof(text) - 1);
  ab_view section = {block, sizeof(text) - 1}, name, value;
  for (size_t i = 0; i < AB_ARRAY_LEN(expected); i++) {
    CHECK(ab_trailer_next(&section, &name, &value));
    CHECK_BYTES(expected[i][0], name.ptr, name.len);
    CHECK_BYTES(expected[i][1], value.ptr, value.len);
  }
  CHECK(!ab_trailer_next(&section, &name, &value)); /* the empty line ends them */
  free(block);
  section = (ab_view){NULL, 0};
  CHECK(!ab_trailer_next(&section, &name, &value));
  section = (ab_view){"X: y", 4};
  CHECK(!ab_trailer_next(&section, &name, &value));
}

static bool allowed(const char *name) {
  return ab_trailer_allowed((ab_view){name, strlen(name)});
}

CHECK_CASE(what_counts_in_the_head_alone_is_dropped) {
  static const char *const bad[] = {
      "Content-Length", "TRANSFER-ENCODING", "host",     "Authorization",  "Cookie",
      "content-type",   "Trailer",           "If-Range", "X-Forwarded-For"};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) CHECK(!allowed(bad[i]));
  static const char *const good[] = {"Digest", "X-Checksum", "Server-Timing",   "ETag",
                                     "Hos",    "Hostx",      "x-content-length"};
  for (size_t i = 0; i < AB_ARRAY_LEN(good); i++) CHECK(allowed(good[i]));
}

CHECK_MAIN()
