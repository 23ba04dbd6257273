/* Plays every case of test/cases/http1.jsonl through the parser: at once, byte by byte, in two
 * parts at every offset (20 spread ones for long cases), and in random segments of a fixed seed. */
#include "check.h"

#include "json_line.h"
#include "model.h"

#define CASES_FILE "test/cases/http1.jsonl"
#define SHORT_CASE 1024

static const char *current; /* id of the case, for messages */

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    check_count++;                                                                                 \
    if (!(condition)) {                                                                            \
      check_failures++;                                                                            \
      fprintf(stderr, "case %s: failed: %s\n", current, #condition);                               \
    }                                                                                              \
  } while (0)

static int status_of(int error) {
  return error ? ab_http_error_status(error) : 200;
}

/* The first final response, as the word that the cases use. */
static const char *verdict(const model_outcome *outcome, bool half_close) {
  static char status[16];
  if (outcome->responses == 0) {
    if (outcome->awaits_continue) return "100";
    return half_close ? "close" : "wait";
  }
  int code = status_of(outcome->errors[0]);
  if (code == 200) return "accept";
  snprintf(status, sizeof(status), "%d", code);
  return status;
}

static void check_verdict(const json_case *the, const model_outcome *outcome) {
  const char *word = verdict(outcome, the->half_close);
  EXPECT(strcmp(word, the->house) == 0);
  if (strcmp(word, the->house) != 0) fprintf(stderr, "  %s instead of %s\n", word, the->house);
  if (the->responses >= 0) EXPECT((int)outcome->responses == the->responses);
  bool accepted = strcmp(the->house, "accept") == 0;
  if (strcmp(the->conn, "keep") == 0) {
    EXPECT(outcome->keep_alive && outcome->state == MODEL_HEAD);
  } else if (strcmp(the->conn, "close") == 0 && !the->half_close) {
    EXPECT(outcome->state == MODEL_CLOSED);
  } else if (strcmp(the->conn, "open") == 0) {
    EXPECT(outcome->state != MODEL_CLOSED);
  }
  if (accepted && the->has_body) {
    EXPECT(outcome->first_body_len == the->body_len &&
           memcmp(outcome->first_body, the->body, the->body_len) == 0);
  }
  if (accepted && the->has_target) {
    EXPECT(outcome->first_target_len == the->target_len &&
           memcmp(outcome->first_target, the->target, the->target_len) == 0);
  }
}

static void check_splits(const json_case *the, const ab_limits *limits,
                         const model_outcome *whole) {
  model_outcome other = model_play(the->raw, the->raw_len, limits, model_next_one, NULL);
  EXPECT(model_same(whole, &other));
  size_t step = the->raw_len <= SHORT_CASE ? 1 : the->raw_len / 21 + 1;
  for (size_t at = step; at < the->raw_len; at += step) {
    other = model_play(the->raw, the->raw_len, limits, model_next_two, &at);
    EXPECT(model_same(whole, &other));
  }
  uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
  for (int round = 0; round < 5; round++) {
    other = model_play(the->raw, the->raw_len, limits, model_next_random, &seed);
    EXPECT(model_same(whole, &other));
  }
}

/* The same bytes as the second request of a connection must fare the same. */
static void check_as_second(const json_case *the, const ab_limits *limits,
                            const model_outcome *first) {
  static const char before[] = "GET /before HTTP/1.1\r\nHost: a.test\r\n\r\n";
  size_t before_len = sizeof(before) - 1, len = before_len + the->raw_len;
  char *bytes = malloc(len);
  if (!bytes) abort();
  memcpy(bytes, before, before_len);
  memcpy(bytes + before_len, the->raw, the->raw_len);
  model_outcome second = model_play(bytes, len, limits, NULL, NULL);
  EXPECT(second.responses == first->responses + 1);
  EXPECT(second.errors[0] == 0);
  for (uint32_t i = 0; i < first->responses; i++) EXPECT(second.errors[i + 1] == first->errors[i]);
  EXPECT(second.state == first->state);
  free(bytes);
}

CHECK_CASE(plays_every_case_in_every_segmentation) {
  const ab_limits limits = ab_limits_default();
  FILE *file = fopen(CASES_FILE, "r");
  CHECK(file != NULL);
  if (!file) return;
  char *line = NULL;
  size_t room = 0;
  int played = 0;
  while (getline(&line, &room, file) > 0) {
    json_case the;
    bool readable = json_case_read(&the, line);
    CHECK(readable);
    if (!readable) break;
    current = the.id;
    model_outcome whole = model_play(the.raw, the.raw_len, &limits, NULL, NULL);
    check_verdict(&the, &whole);
    check_splits(&the, &limits, &whole);
    check_as_second(&the, &limits, &whole);
    json_case_free(&the);
    played++;
  }
  free(line);
  fclose(file);
  CHECK(played >= 299);
}

CHECK_MAIN()
