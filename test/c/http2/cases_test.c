/* Plays every case of test/cases/http2.txt: whole, byte by byte, 7 bytes at a time, line by line.
 */
#include "frames.h"
#include "server.h"

#define CASES_FILE "test/cases/http2.txt"
#define LINES_MAX  64
#define ALIVE      "ping 0 - 616c697665212121" /* alive!!! */

typedef struct one_case {
  char *id;
  char *lines[LINES_MAX];
  int count;
} one_case;

/* What the server has said. */
typedef struct outcome {
  char *bytes;
  size_t len;
  bool settings, ack, over;
} outcome;

static const one_case *current;
static int segmentation;

#define EXPECT(condition, line)                                                                    \
  do {                                                                                             \
    check_count++;                                                                                 \
    if (!(condition)) {                                                                            \
      check_failures++;                                                                            \
      fprintf(stderr, "case %s, segmentation %d: failed: %s\n", current->id, segmentation, line);  \
    }                                                                                              \
  } while (0)

static void answer_hello(server *self AB_UNUSED, server_stream *one) {
  bool is_head = ab_h2_stream_is_head(one->stream);
  int status = one->error ? ab_http_error_status(one->error) : 200;
  CHECK_INT(AB_OK, server_answer(one, status, "", is_head || one->error ? 0 : 5));
  if (one->error) ab_h2_reset(one->stream, AB_H2_NO_ERROR);
}

static void answer_if_ended(server *self, server_stream *one) {
  if (one->error || one->ended) answer_hello(self, one);
}

/* What ended meanwhile is answered. */
static void answer_ended(server *self) {
  ab_list_each (node, tmp, &self->streams) {
    server_stream *one = AB_CONTAINER_OF(node, server_stream, node);
    if (one->ended && one->stream && !one->stream->responded && !one->stream->reset) {
      answer_hello(self, one);
    }
  }
}

static void collect(server *s, outcome *the) {
  size_t len;
  answer_ended(s);
  char *bytes = server_send(s, &len, UINT64_MAX);
  the->bytes = realloc(the->bytes, the->len + len + 1);
  if (!the->bytes) abort();
  memcpy(the->bytes + the->len, bytes, len);
  the->len += len;
  free(bytes);
}

/* Sends what has gathered, as the segmentation says. */
static void flush(server *s, frames *f, outcome *the) {
  size_t step = segmentation == 1 ? 1 : segmentation == 2 ? 7 : f->len;
  for (size_t at = 0; at < f->len; at += step) {
    size_t rest = f->len - at;
    (void)server_receive(s, f->bytes + at, step < rest ? step : rest);
    collect(s, the);
  }
  f->len = 0;
}

static void send_line(server *s, frames *f, outcome *the, const char *line) {
  if (strcmp(line, "wait") == 0) {
    flush(s, f, the);
  } else if (strncmp(line, "repeat ", 7) == 0) {
    char *words;
    long times = strtol(line + 7, &words, 10);
    for (long i = 0; i < times; i++) {
      f->stream = (int32_t)(2 * i + 1);
      frames_add(f, words);
    }
  } else if (line[0] == '>') {
    frames_add(f, line + 1);
    if (segmentation == 3) flush(s, f, the);
  }
}

/* --- outcomes --- */

static bool has_code(uint32_t code, const char *names) {
  static const char *const all[] = {"NO_ERROR",           "PROTOCOL_ERROR",   "INTERNAL_ERROR",
                                    "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
                                    "FRAME_SIZE_ERROR",   "REFUSED_STREAM",   "CANCEL",
                                    "COMPRESSION_ERROR",  "CONNECT_ERROR",    "ENHANCE_YOUR_CALM"};
  return code < AB_ARRAY_LEN(all) && strstr(names, all[code]);
}

static bool has_goaway(const outcome *the, const char *names) {
  int64_t code = frames_goaway(the->bytes, the->len);
  return code >= 0 && has_code((uint32_t)code, names) && the->over;
}

/* The first frame of this type and stream; with `flag`, that has it. */
static bool find(const outcome *the, uint8_t type, uint32_t stream, uint8_t flag,
                 frame_seen *seen) {
  const char *bytes = the->bytes;
  size_t len = the->len;
  while (frames_next(&bytes, &len, seen)) {
    if (seen->type == type && seen->stream == stream && (seen->flags & flag) == flag) return true;
  }
  return false;
}

static bool has_reset(const outcome *the, uint32_t stream, const char *names) {
  frame_seen seen;
  return find(the, 3, stream, 0, &seen) && has_code(frames_u32(seen.payload), names);
}

/* All blocks go through one table, so all are read to get at one. */
static int status_of(const outcome *the, uint32_t stream) {
  const char *bytes = the->bytes;
  size_t len = the->len;
  int status = 0;
  frame_seen seen;
  nghttp2_hd_inflater *inflater;
  if (nghttp2_hd_inflate_new(&inflater) != 0) abort();
  while (frames_next(&bytes, &len, &seen)) {
    int flags = 0;
    for (size_t at = 0; seen.type == 1 && !(flags & NGHTTP2_HD_INFLATE_FINAL);) {
      nghttp2_nv field;
      ssize_t used =
          nghttp2_hd_inflate_hd2(inflater, &field, &flags, seen.payload + at, seen.len - at, 1);
      if (used < 0) abort();
      at += (size_t)used;
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) && seen.stream == stream && field.namelen == 7 &&
          memcmp(field.name, ":status", 7) == 0) {
        status = atoi((const char *)field.value);
      }
    }
    if (seen.type == 1) nghttp2_hd_inflate_end_headers(inflater);
  }
  nghttp2_hd_inflate_del(inflater);
  return status;
}

static bool is_complete(const outcome *the, uint32_t stream) {
  frame_seen seen;
  return find(the, 1, stream, 1, &seen) || find(the, 0, stream, 1, &seen);
}

static bool has_lengths(const outcome *the, uint32_t stream, const char *text) {
  const char *bytes = the->bytes;
  size_t len = the->len, used = 0;
  char lengths[256] = "";
  frame_seen seen;
  while (frames_next(&bytes, &len, &seen)) {
    if (seen.type != 0 || seen.stream != stream) continue;
    used += (size_t)sprintf(lengths + used, "%s%zu", used ? "," : "", seen.len);
  }
  return strcmp(lengths, text) == 0;
}

static bool has_pong(const outcome *the, const char *hex) {
  const char *bytes = the->bytes;
  size_t len = the->len;
  frame_seen seen;
  while (frames_next(&bytes, &len, &seen)) {
    char text[17];
    if (seen.type != 6 || !(seen.flags & 1) || seen.len != 8) continue;
    for (int i = 0; i < 8; i++) sprintf(text + 2 * i, "%02x", seen.payload[i]);
    if (strcmp(text, hex) == 0) return true;
  }
  return false;
}

static bool is_silent(const outcome *the, uint32_t stream) {
  frame_seen seen;
  for (uint8_t type = 0; type < 4; type++) {
    if (find(the, type, stream, 0, &seen)) return false;
  }
  return true;
}

static bool has_settings(const outcome *the, uint8_t flag) {
  frame_seen seen;
  return find(the, 4, 0, flag, &seen);
}

static bool is_answered(const outcome *the, uint32_t stream, const char *status) {
  return status_of(the, stream) == atoi(status) && is_complete(the, stream);
}

static void check_outcome(const outcome *the, const char *line) {
  char words[200], what[16] = "", second[64] = "", third[64] = "", fourth[64] = "";
  snprintf(words, sizeof words, "%s", line + 1);
  sscanf(words, "%15s %63s %63s %63s", what, second, third, fourth);
  uint32_t stream = (uint32_t)strtoul(second, NULL, 10);
  bool holds = false;
  if (strcmp(what, "answer") == 0) {
    holds = is_answered(the, stream, third);
  } else if (strcmp(what, "refuse") == 0) {
    holds = is_answered(the, stream, third) || has_reset(the, stream, fourth);
  } else if (strcmp(what, "error") == 0) {
    holds = has_reset(the, stream, third) || has_goaway(the, third);
  } else if (strcmp(what, "goaway") == 0) {
    holds = has_goaway(the, second);
  } else if (strcmp(what, "end") == 0) {
    holds = the->over;
  } else if (strcmp(what, "data") == 0) {
    holds = has_lengths(the, stream, third);
  } else if (strcmp(what, "pong") == 0) {
    holds = has_pong(the, second);
  } else if (strcmp(what, "nopong") == 0) {
    holds = !has_pong(the, second);
  } else if (strcmp(what, "silent") == 0) {
    holds = is_silent(the, stream);
  } else if (strcmp(what, "settings") == 0) {
    holds = has_settings(the, 0);
  } else if (strcmp(what, "ack") == 0) {
    holds = has_settings(the, 1);
  } else {
    holds = strcmp(what, "either") == 0;
  }
  EXPECT(holds, line);
}

static bool may_fail(const one_case *the) {
  for (int i = 0; i < the->count; i++) {
    if (strncmp(the->lines[i], "< goaway", 8) == 0 || strncmp(the->lines[i], "< end", 5) == 0 ||
        strncmp(the->lines[i], "< either", 8) == 0 || strncmp(the->lines[i], "< error", 7) == 0 ||
        strncmp(the->lines[i], "< refuse", 8) == 0) {
      return true;
    }
  }
  return false;
}

static void play_case(const one_case *the) {
  server s;
  frames f = {0};
  outcome result = {0};
  current = the;
  CHECK(server_init(&s, NULL, 0));
  s.on_request = answer_if_ended;
  if (strcmp(the->lines[0], "raw") != 0) frames_add(&f, "preface settings");
  for (int i = 0; i < the->count; i++) send_line(&s, &f, &result, the->lines[i]);
  frames_add(&f, ALIVE);
  flush(&s, &f, &result);
  result.over = ab_h2_is_over(s.h2);
  for (int i = 0; i < the->count; i++) {
    if (the->lines[i][0] == '<') check_outcome(&result, the->lines[i]);
  }
  bool left = strstr(the->id, "/3.8/1") || strstr(the->id, "/7/1"); /* the client ended it */
  if (!may_fail(the) && !left) EXPECT(has_pong(&result, "616c697665212121"), "a PING is answered");
  free(result.bytes);
  frames_free(&f);
  server_fini(&s);
}

static int play_all(FILE *file) {
  char line[4096];
  one_case the = {0};
  int cases = 0;
  for (bool more = true; more;) {
    more = fgets(line, sizeof line, file);
    if (more) line[strcspn(line, "\n")] = 0;
    if (!more || strncmp(line, "case ", 5) == 0) {
      if (the.count > 0) {
        for (segmentation = 0; segmentation < 4; segmentation++) play_case(&the);
        cases++;
      }
      free(the.id);
      for (int i = 0; i < the.count; i++) free(the.lines[i]);
      the = (one_case){0};
      if (more) the.id = strdup(line + 5);
    } else if (line[0] && line[0] != '#') {
      CHECK(the.id && the.count < LINES_MAX);
      the.lines[the.count++] = strdup(line);
    }
  }
  return cases;
}

CHECK_CASE(all_cases_come_out_as_they_must) {
  FILE *file = fopen(CASES_FILE, "r");
  CHECK(file != NULL);
  if (!file) return;
  CHECK_INT(183, play_all(file));
  fclose(file);
}

CHECK_MAIN()
