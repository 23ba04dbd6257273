/* A machine that looks at one byte of framing at a time, and passes data on in one piece. All it
 * knows is in ab_chunk_decoder, so that the bytes may be split anywhere. */
#include "http1/chunk.h"

#include "base/bits.h"
#include "http/char.h"
#include "http1/framing.h"
#include "http1/head.h"

#define DIGITS_MAX 16 /* hexadecimal, 64 bits */

/* Chunks of one byte are legal and cost a hundred times what large ones do. So a body's framing
 * may take max_chunk_overhead, and beyond it no more than three quarters of all bytes. */
#define OVERHEAD_RATIO 3

enum chunk_state {
  STATE_SIZE = 0,
  STATE_NEXT_EXT,     /* white space has been read: only ";" may follow */
  STATE_EXT_NAME_1ST, /* behind ";" */
  STATE_EXT_NAME,
  STATE_EXT_NAME_END, /* white space behind a name: "=" or ";" */
  STATE_EXT_VALUE_1ST,
  STATE_EXT_VALUE,
  STATE_EXT_QUOTED,
  STATE_EXT_QUOTED_PAIR,
  STATE_EXT_QUOTED_END,
  STATE_SIZE_LF,
  STATE_DATA,
  STATE_DATA_CR,
  STATE_DATA_LF,
  STATE_TRAILER, /* at the start of a trailer line */
  STATE_TRAILER_NAME,
  STATE_TRAILER_VALUE,
  STATE_TRAILER_LF,
  STATE_FINAL_LF,
  STATE_DONE
};

void ab_chunk_init(ab_chunk_decoder *self) {
  *self = (ab_chunk_decoder){.state = STATE_SIZE};
}

static int go(ab_chunk_decoder *self, enum chunk_state state) {
  self->state = (uint8_t)state;
  return AB_OK;
}

/* A byte that the line cannot have at this place. */
static int bad(char byte, int error) {
  return byte == '\n' ? AB_HTTP_LINE_END : error;
}

static bool count(uint32_t *counter, uint64_t max) {
  return *counter < max && *counter < UINT32_MAX && ++*counter;
}

static int check_size(const ab_chunk_decoder *self, const ab_limits *limits) {
  uint64_t most = limits->max_body_size, total;
  if (most == 0 || most > AB_BODY_CEILING) most = AB_BODY_CEILING;
  if (!ab_add_u64(self->total, self->left, &total) || total > most) return AB_HTTP_BODY_TOO_LARGE;
  return AB_OK;
}

/* Behind the size, a name or a value: another extension, or the end of the line. */
static int after_item(ab_chunk_decoder *self, char byte, enum chunk_state blank, int error) {
  if (byte == '\r') return go(self, STATE_SIZE_LF);
  if (byte == ';') return go(self, STATE_EXT_NAME_1ST);
  if (ab_is_blank(byte)) return go(self, blank);
  return bad(byte, error);
}

static int on_size(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  int digit = ab_hex_value(byte);
  if (digit >= 0) {
    if (self->digits == DIGITS_MAX) return AB_HTTP_CHUNK_SIZE_SYNTAX;
    self->digits++;
    self->left = self->left << 4 | (unsigned)digit;
    return AB_OK;
  }
  if (self->digits == 0) return bad(byte, AB_HTTP_CHUNK_SIZE_SYNTAX);
  int error = after_item(self, byte, STATE_NEXT_EXT, AB_HTTP_CHUNK_SIZE_SYNTAX);
  return error ? error : check_size(self, limits);
}

/* The bytes of a quoted-string, its first DQUOTE excepted (RFC 9110 5.6.4). */
static int on_quoted(ab_chunk_decoder *self, char byte) {
  if (self->state == STATE_EXT_QUOTED_PAIR) {
    if (!ab_char_is(byte, AB_CHAR_VALUE)) return bad(byte, AB_HTTP_CHUNK_EXTENSION_SYNTAX);
    return go(self, STATE_EXT_QUOTED);
  }
  if (byte == '"') return go(self, STATE_EXT_QUOTED_END);
  if (byte == '\\') return go(self, STATE_EXT_QUOTED_PAIR);
  return ab_char_is(byte, AB_CHAR_QUOTED) ? AB_OK : bad(byte, AB_HTTP_CHUNK_EXTENSION_SYNTAX);
}

/* BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] (RFC 9112 7.1.1). White space at the
 * end of the line is not in the grammar. */
static int on_extension(ab_chunk_decoder *self, char byte) {
  const int error = AB_HTTP_CHUNK_EXTENSION_SYNTAX;
  bool token = ab_char_is(byte, AB_CHAR_TOKEN), blank = ab_is_blank(byte);
  switch (self->state) {
  case STATE_NEXT_EXT:
    if (byte == ';') return go(self, STATE_EXT_NAME_1ST);
    return blank ? AB_OK : bad(byte, error);
  case STATE_EXT_NAME_1ST:
    if (token) return go(self, STATE_EXT_NAME);
    return blank ? AB_OK : bad(byte, error);
  case STATE_EXT_NAME:
    if (token) return AB_OK;
    if (byte == '=') return go(self, STATE_EXT_VALUE_1ST);
    return after_item(self, byte, STATE_EXT_NAME_END, error);
  case STATE_EXT_NAME_END:
    if (byte == '=') return go(self, STATE_EXT_VALUE_1ST);
    if (byte == ';') return go(self, STATE_EXT_NAME_1ST);
    return blank ? AB_OK : bad(byte, error);
  case STATE_EXT_VALUE_1ST:
    if (byte == '"') return go(self, STATE_EXT_QUOTED);
    if (token) return go(self, STATE_EXT_VALUE);
    return blank ? AB_OK : bad(byte, error);
  case STATE_EXT_VALUE:
    if (token) return AB_OK;
    return after_item(self, byte, STATE_NEXT_EXT, error);
  case STATE_EXT_QUOTED_END:
    return after_item(self, byte, STATE_NEXT_EXT, error);
  default:
    return on_quoted(self, byte);
  }
}

static int begin_chunk(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  if (byte != '\n') return AB_HTTP_LINE_END;
  self->overhead += (uint64_t)self->line + 2;
  if (self->overhead > limits->max_chunk_overhead &&
      self->overhead / OVERHEAD_RATIO > self->total) {
    return AB_HTTP_CHUNK_OVERHEAD;
  }
  self->total += self->left;
  self->line = 0;
  self->digits = 0;
  return go(self, self->left ? STATE_DATA : STATE_TRAILER);
}

static int on_size_line(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  if (self->state == STATE_SIZE_LF) return begin_chunk(self, limits, byte);
  if (byte != '\r' && !count(&self->line, limits->max_chunk_line)) {
    return AB_HTTP_CHUNK_LINE_TOO_LONG;
  }
  int error = self->state == STATE_SIZE ? on_size(self, limits, byte) : on_extension(self, byte);
  if (error) return error;
  bool extension = self->state > STATE_SIZE && self->state < STATE_SIZE_LF;
  if (extension && !count(&self->extensions, limits->max_chunk_extensions)) {
    return AB_HTTP_CHUNK_OVERHEAD;
  }
  return AB_OK;
}

static int on_data_end(ab_chunk_decoder *self, char byte) {
  if (byte != (self->state == STATE_DATA_CR ? '\r' : '\n')) return AB_HTTP_CHUNK_DATA_END;
  if (self->state == STATE_DATA_CR) return go(self, STATE_DATA_LF);
  self->overhead += 2;
  return go(self, STATE_SIZE);
}

static int on_trailer_start(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  if (ab_is_blank(byte)) return AB_HTTP_FIELD_FOLDED;
  if (!ab_char_is(byte, AB_CHAR_TOKEN)) return bad(byte, AB_HTTP_FIELD_NAME_SYNTAX);
  if (self->trailers >= limits->max_trailer_count || self->trailers == UINT16_MAX) {
    return AB_HTTP_TRAILER_TOO_LONG;
  }
  self->trailers++;
  return go(self, STATE_TRAILER_NAME);
}

/* The rules for trailer lines are those for field lines (RFC 9112 7.1.2). */
static int on_trailer_line(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  if (!count(&self->line, limits->max_trailer_size)) return AB_HTTP_TRAILER_TOO_LONG;
  switch (self->state) {
  case STATE_TRAILER:
    return on_trailer_start(self, limits, byte);
  case STATE_TRAILER_NAME:
    if (byte == ':') return go(self, STATE_TRAILER_VALUE);
    return ab_char_is(byte, AB_CHAR_TOKEN) ? AB_OK : bad(byte, AB_HTTP_FIELD_NAME_SYNTAX);
  case STATE_TRAILER_VALUE:
    if (byte == '\r') return go(self, STATE_TRAILER_LF);
    return ab_char_is(byte, AB_CHAR_VALUE) ? AB_OK : bad(byte, AB_HTTP_FIELD_VALUE_SYNTAX);
  default:
    return byte == '\n' ? go(self, STATE_TRAILER) : AB_HTTP_LINE_END;
  }
}

static int on_trailer(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  if (self->state == STATE_FINAL_LF) {
    return byte == '\n' ? go(self, STATE_DONE) : AB_HTTP_LINE_END;
  }
  if (self->state == STATE_TRAILER && byte == '\r') return go(self, STATE_FINAL_LF);
  return on_trailer_line(self, limits, byte);
}

static int on_byte(ab_chunk_decoder *self, const ab_limits *limits, char byte) {
  return self->state <= STATE_SIZE_LF ? on_size_line(self, limits, byte) : on_data_end(self, byte);
}

uint64_t ab_chunk_data_left(const ab_chunk_decoder *self) {
  return self->state == STATE_DATA ? self->left : 0;
}

void ab_chunk_take(ab_chunk_decoder *self, uint64_t len) {
  self->left -= len;
  if (self->left == 0) go(self, STATE_DATA_CR);
}

int ab_chunk_framing(ab_chunk_decoder *self, const ab_limits *limits, const char *buf, size_t len,
                     size_t *consumed) {
  const char *ptr = buf, *end = buf + len;
  int error = AB_OK;
  while (ptr < end && self->state < STATE_TRAILER && self->state != STATE_DATA) {
    error = on_byte(self, limits, *ptr);
    if (error) break;
    ptr++;
  }
  const char *section = ptr;
  while (ptr < end && !error && self->state >= STATE_TRAILER && self->state != STATE_DONE) {
    error = on_trailer(self, limits, *ptr);
    if (!error) ptr++;
  }
  *consumed = (size_t)(ptr - buf);
  self->section = (uint32_t)(ptr - section);
  if (error) return error;
  if (self->state == STATE_DATA) return AB_CHUNK_DATA;
  return self->state == STATE_DONE ? AB_CHUNK_DONE : AB_CHUNK_MORE;
}

int ab_chunk_decode(ab_chunk_decoder *self, const ab_limits *limits, const char *buf, size_t len,
                    size_t *consumed, ab_view *data) {
  int result = ab_chunk_framing(self, limits, buf, len, consumed);
  if (result != AB_CHUNK_DATA) return result;
  size_t there = len - *consumed;
  if (there == 0) return AB_CHUNK_MORE;
  *data = (ab_view){buf + *consumed, self->left < there ? (size_t)self->left : there};
  ab_chunk_take(self, data->len);
  *consumed += data->len;
  return AB_CHUNK_DATA;
}
