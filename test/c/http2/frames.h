/* Frames in words, as test/cases/http2.txt has them:
 *
 *   preface settings headers 1 es,eh :get 00 01'x' 01'1' data 1 es 'text' 00*100
 *
 * A frame is its type (or 0xNN), its stream ("$": the one that is set), its flags ("-": none; es,
 * eh, pad, pri, ack, 0xNN) and its payload: bytes in hexadecimal, text in quotes, *N for the last
 * byte N times in all, or a block by its name. The length is counted; "len=N" says another one.
 * Stream and flags may be left out where both are 0. Bytes behind "raw" are no frame. "preface" is
 * the 24 bytes that a client begins with. */
#ifndef AB_TEST_HTTP2_FRAMES_H
#define AB_TEST_HTTP2_FRAMES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

typedef struct frames {
  char *bytes;
  size_t len, room;
  size_t last;    /* where the last frame starts */
  int32_t stream; /* what "$" is */
} frames;

static AB_UNUSED void frames_free(frames *self) {
  free(self->bytes);
}

static AB_UNUSED void frames_put(frames *self, const void *bytes, size_t len) {
  if (self->room - self->len < len) {
    self->room = 2 * self->room + len;
    self->bytes = realloc(self->bytes, self->room);
    if (!self->bytes) abort();
  }
  memcpy(self->bytes + self->len, bytes, len);
  self->len += len;
}

static AB_UNUSED void frames_grow(frames *self, uint8_t byte, size_t len) {
  for (size_t i = 0; i < len; i++) frames_put(self, &byte, 1);
}

static AB_UNUSED void frames_set_length(frames *self, size_t len) {
  for (int i = 0; i < 3; i++) self->bytes[self->last + (size_t)i] = (char)(len >> (16 - 8 * i));
}

/* The last frame has `more` bytes of payload more. */
static AB_UNUSED void frames_lengthen(frames *self, size_t more) {
  const uint8_t *head = (const uint8_t *)self->bytes + self->last;
  frames_set_length(self, ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]) + more);
}

/* --- words --- */

static AB_UNUSED _Noreturn void frames_fail(const char *word) {
  fprintf(stderr, "frames: no word is \"%s\"\n", word);
  abort();
}

static AB_UNUSED int frames_type(const char *word) {
  static const char *const names[] = {"data",          "headers",      "priority", "rst_stream",
                                      "settings",      "push_promise", "ping",     "goaway",
                                      "window_update", "continuation"};
  for (int i = 0; i < (int)AB_ARRAY_LEN(names); i++) {
    if (strcmp(word, names[i]) == 0) return i;
  }
  if (strcmp(word, "priority_update") == 0) return 0x10;
  return strncmp(word, "0x", 2) == 0 ? (int)strtol(word, NULL, 16) : -1;
}

static AB_UNUSED uint8_t frames_flags(char *word) {
  static const struct {
    const char *name;
    uint8_t flag;
  } names[] = {{"-", 0}, {"es", 1}, {"ack", 1}, {"eh", 4}, {"pad", 8}, {"pri", 32}};
  uint8_t flags = 0;
  char *rest;
  for (char *name = strtok_r(word, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    size_t i = 0;
    while (i < AB_ARRAY_LEN(names) && strcmp(name, names[i].name) != 0) i++;
    if (i < AB_ARRAY_LEN(names)) {
      flags |= names[i].flag;
    } else if (strncmp(name, "0x", 2) == 0) {
      flags |= (uint8_t)strtol(name, NULL, 16);
    } else {
      frames_fail(name);
    }
  }
  return flags;
}

/* Blocks of fields, none of which changes the table. */
static AB_UNUSED const char *frames_block(const char *word) {
  static const char *const blocks[][2] = {
      {":get", "8287840106'a.test'"},
      {":post", "8387840106'a.test'"},
      {":head", "0204'HEAD'87840106'a.test'"},
      {":post1", "8387840106'a.test'0f0d01'1'"},
      {":post3", "8387840106'a.test'0f0d01'3'"},
      {":trailer", "0003'x-t'01'1'"},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(blocks); i++) {
    if (strcmp(word, blocks[i][0]) == 0) return blocks[i][1];
  }
  frames_fail(word);
}

static AB_UNUSED void frames_payload(frames *self, const char *word) {
  if (*word == ':') word = frames_block(word);
  while (*word) {
    if (*word == '\'') {
      const char *end = strchr(word + 1, '\'');
      if (!end) frames_fail(word);
      frames_put(self, word + 1, (size_t)(end - word - 1));
      word = end + 1;
    } else if (*word == '*') {
      char *end;
      size_t times = strtoul(word + 1, &end, 10);
      frames_grow(self, (uint8_t)self->bytes[self->len - 1], times - 1);
      word = end;
    } else {
      unsigned byte;
      if (sscanf(word, "%2x", &byte) != 1 || !word[1]) frames_fail(word);
      uint8_t octet = (uint8_t)byte;
      frames_put(self, &octet, 1);
      word += 2;
    }
  }
}

static AB_UNUSED void frames_begin(frames *self, uint8_t type, uint32_t stream, uint8_t flags) {
  const uint8_t head[9] = {0,
                           0,
                           0,
                           type,
                           flags,
                           (uint8_t)(stream >> 24),
                           (uint8_t)(stream >> 16),
                           (uint8_t)(stream >> 8),
                           (uint8_t)stream};
  self->last = self->len;
  frames_put(self, head, sizeof head);
}

/* Appends what the words say. */
static AB_UNUSED void frames_add(frames *self, const char *text) {
  char *copy = strdup(text), *rest;
  if (!copy) abort();
  enum { TYPE, STREAM, FLAGS, PAYLOAD, RAW } want = TYPE;
  bool fixed = false; /* the length */
  for (char *word = strtok_r(copy, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
    int type = frames_type(word);
    if (strcmp(word, "preface") == 0) {
      frames_put(self, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
      want = TYPE;
    } else if (strcmp(word, "raw") == 0) {
      want = RAW;
    } else if (want == RAW) {
      frames_payload(self, word);
    } else if (type >= 0 && want != FLAGS) {
      frames_begin(self, (uint8_t)type, 0, 0);
      want = STREAM;
      fixed = false;
    } else if (want == STREAM) {
      uint32_t stream = *word == '$' ? (uint32_t)self->stream : (uint32_t)strtoul(word, NULL, 10);
      for (int i = 0; i < 4; i++)
        self->bytes[self->last + 5 + (size_t)i] = (char)(stream >> (24 - 8 * i));
      want = FLAGS;
    } else if (want == FLAGS) {
      self->bytes[self->last + 4] = (char)frames_flags(word);
      want = PAYLOAD;
    } else if (want == PAYLOAD && strncmp(word, "len=", 4) == 0) {
      frames_set_length(self, strtoul(word + 4, NULL, 10));
      fixed = true;
    } else if (want == PAYLOAD) {
      frames_payload(self, word);
      if (!fixed) frames_set_length(self, self->len - self->last - 9);
    } else {
      frames_fail(word);
    }
  }
  free(copy);
}

/* --- what comes back --- */

typedef struct frame_seen {
  size_t len;
  uint8_t type, flags;
  uint32_t stream;
  const uint8_t *payload;
} frame_seen;

/* Takes the first frame off; false if none is whole. */
static AB_UNUSED bool frames_next(const char **bytes, size_t *len, frame_seen *seen) {
  const uint8_t *head = (const uint8_t *)*bytes;
  if (*len < 9) return false;
  seen->len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
  if (*len - 9 < seen->len) return false;
  seen->type = head[3];
  seen->flags = head[4];
  seen->stream =
      ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) &
      0x7fffffff;
  seen->payload = head + 9;
  *bytes += 9 + seen->len;
  *len -= 9 + seen->len;
  return true;
}

static AB_UNUSED uint32_t frames_u32(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The code of the last GOAWAY; -1: there is none. */
static AB_UNUSED int64_t frames_goaway(const char *bytes, size_t len) {
  frame_seen seen;
  int64_t code = -1;
  while (frames_next(&bytes, &len, &seen)) {
    if (seen.type == 7) code = frames_u32(seen.payload + 4);
  }
  return code;
}

#endif
