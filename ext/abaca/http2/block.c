/* Fields are kept as records, one behind another, until all are there: only then is it known how
 * much memory they take, and where a Cookie that comes in crumbs goes on. */
#include "http2/block.h"

#include <string.h>
#include <strings.h>

#include "http/char.h"
#include "http/error.h"
#include "http/field.h"
#include "http/target.h"
#include "http/trailer.h"

#define ROOM_FIRST 512

/* What SETTINGS_MAX_HEADER_LIST_SIZE adds for each field (RFC 9113 6.5.2). */
#define FIELD_OVERHEAD 32

typedef struct record {
  uint32_t name_len, value_len;
} record;

void ab__h2_block_begin(ab__h2_block *self, bool is_trailer) {
  *self = (ab__h2_block){.is_trailer = is_trailer};
}

void ab__h2_block_end(ab__h2_block *self, const ab_mem *mem) {
  ab_free(mem, self->bytes);
  *self = (ab__h2_block){0};
}

static bool reserve(ab__h2_block *self, const ab_mem *mem, size_t more) {
  if (self->room - self->len >= more) return true;
  size_t room = self->room ? self->room : ROOM_FIRST;
  while (room - self->len < more) room *= 2;
  char *bytes = ab_realloc(mem, self->bytes, room);
  if (!bytes) return false;
  self->bytes = bytes;
  self->room = room;
  return true;
}

static void keep(ab__h2_block *self, const ab_mem *mem, ab_view name, ab_view value) {
  record lengths = {(uint32_t)name.len, (uint32_t)value.len};
  if (!reserve(self, mem, sizeof lengths + name.len + value.len)) {
    self->error = AB_HTTP_NO_MEMORY;
    return;
  }
  char *p = self->bytes + self->len;
  memcpy(p, &lengths, sizeof lengths);
  p += sizeof lengths;
  memcpy(p, name.ptr, name.len);
  if (value.len > 0) memcpy(p + name.len, value.ptr, value.len);
  self->len += sizeof lengths + name.len + value.len;
  self->records++;
}

static bool is_cookie(ab_view name) {
  return ab_view_is(name, "cookie", 6);
}

static int check_trailer(ab__h2_block *self, const ab_limits *limits, ab_view name, ab_view value) {
  self->count++;
  /* As a line, as HTTP/1 counts it. */
  self->size += name.len + value.len + 4;
  if (self->count > limits->max_trailer_count) return AB_HTTP_TRAILER_TOO_LONG;
  return self->size > limits->max_trailer_size ? AB_HTTP_TRAILER_TOO_LONG : AB_OK;
}

static int check_pseudo(ab__h2_block *self, const ab_limits *limits, ab_view name, ab_view value) {
  if (ab_view_is(name, ":method", 7)) {
    self->is_head = ab_view_is(value, "HEAD", 4);
    return value.len > AB_METHOD_MAX ? AB_HTTP_METHOD_TOO_LONG : AB_OK;
  }
  if (!ab_view_is(name, ":path", 5)) return AB_OK;
  return value.len > limits->max_request_line ? AB_HTTP_REQUEST_LINE_TOO_LONG : AB_OK;
}

static int check_regular(ab__h2_block *self, const ab_limits *limits, ab_view name, ab_view value) {
  size_t line = name.len + 2 + value.len;
  if (is_cookie(name)) {
    /* Crumbs make one line. */
    self->count += self->cookie == 0;
    line = self->cookie += self->cookie ? 2 + value.len : line;
  } else {
    self->count++;
  }
  if (line > limits->max_header_line || name.len > UINT16_MAX) return AB_HTTP_FIELD_TOO_LONG;
  return self->count > limits->max_header_count ? AB_HTTP_FIELD_TOO_MANY : AB_OK;
}

static int check_head(ab__h2_block *self, const ab_limits *limits, ab_view name, ab_view value) {
  self->size += name.len + value.len + FIELD_OVERHEAD;
  if (self->size > limits->max_head_size) return AB_HTTP_HEAD_TOO_LONG;
  return *name.ptr == ':' ? check_pseudo(self, limits, name, value)
                          : check_regular(self, limits, name, value);
}

void ab__h2_block_add(ab__h2_block *self, const ab_mem *mem, const ab_limits *limits, ab_view name,
                      ab_view value) {
  int error = self->is_trailer ? check_trailer(self, limits, name, value)
                               : check_head(self, limits, name, value);
  if (self->error) return;
  self->error = error;
  if (!error) keep(self, mem, name, value);
}

/* Takes the next record off; the views point into the block. */
static bool next_record(const ab__h2_block *self, size_t *at, ab_view *name, ab_view *value) {
  if (*at == self->len) return false;
  record lengths;
  memcpy(&lengths, self->bytes + *at, sizeof lengths);
  const char *p = self->bytes + *at + sizeof lengths;
  *name = (ab_view){p, lengths.name_len};
  *value = (ab_view){p + lengths.name_len, lengths.value_len};
  *at += sizeof lengths + lengths.name_len + lengths.value_len;
  return true;
}

/* --- a head --- */

typedef struct builder {
  ab_h2_head *head;
  char *text;        /* where the next bytes go */
  ab_view authority; /* ptr NULL: there is none */
  ab_view host;
  char *cookie; /* where the next crumb goes; NULL before the first one */
  bool expect_known, expect_unknown;
} builder;

static ab_view copy(builder *self, ab_view from) {
  char *to = self->text;
  if (from.len > 0) memcpy(to, from.ptr, from.len);
  self->text += from.len;
  return (ab_view){to, from.len};
}

static void take_pseudo(builder *self, ab_view name, ab_view value) {
  ab_request *request = &self->head->request;
  value = copy(self, value);
  if (ab_view_is(name, ":method", 7)) request->method = value;
  if (ab_view_is(name, ":path", 5)) request->target = value;
  if (ab_view_is(name, ":authority", 10)) self->authority = value;
  if (ab_view_is(name, ":scheme", 7)) self->head->scheme = value;
  if (ab_view_is(name, ":protocol", 9)) request->protocol = value;
}

static ab_field *add_field(builder *self, ab_view name, size_t value_len) {
  ab_request *request = &self->head->request;
  ab_field *field = &request->fields[request->field_count++];
  field->name = copy(self, name).ptr;
  field->name_len = (uint16_t)name.len;
  field->value = self->text;
  field->value_len = (uint32_t)value_len;
  field->id = ab_field_id(field->name, name.len);
  request->known |= (uint16_t)(1u << field->id);
  self->text += value_len;
  return field;
}

/* Joins crumbs (RFC 9113 8.2.3) where the first one stands; `whole` is the length of all. */
static void take_cookie(builder *self, ab_view name, ab_view value, size_t whole) {
  if (!self->cookie) {
    self->cookie = (char *)add_field(self, name, whole - name.len - 2)->value;
  } else {
    memcpy(self->cookie, "; ", 2);
    self->cookie += 2;
  }
  if (value.len > 0) memcpy(self->cookie, value.ptr, value.len);
  self->cookie += value.len;
}

static void take_field(builder *self, ab_view name, ab_view value) {
  ab_field *field = add_field(self, name, value.len);
  if (value.len > 0) memcpy((char *)field->value, value.ptr, value.len);
  value.ptr = field->value;
  if (field->id == AB_FIELD_HOST) self->host = value;
  if (field->id == AB_FIELD_EXPECT) {
    ab_read_expect(value, &self->expect_known, &self->expect_unknown);
  }
}

static void take_all(builder *self, const ab__h2_block *block) {
  ab_view name, value;
  for (size_t at = 0; next_record(block, &at, &name, &value);) {
    if (*name.ptr == ':') {
      take_pseudo(self, name, value);
    } else if (is_cookie(name)) {
      take_cookie(self, name, value, block->cookie);
    } else {
      take_field(self, name, value);
    }
  }
}

/* Of two that are there, both must name the same (RFC 9113 8.3.1). */
static int decide_host(builder *self) {
  ab_request *request = &self->head->request;
  ab_authority authority, host;
  if (self->authority.ptr && !ab_authority_parse(self->authority, &authority)) {
    return AB_HTTP_HOST_SYNTAX;
  }
  if (self->host.ptr) {
    if (!ab_authority_parse(self->host, &host)) return AB_HTTP_HOST_SYNTAX;
    if (!self->authority.ptr) authority = host;
    if (authority.host.len != host.host.len ||
        strncasecmp(authority.host.ptr, host.host.ptr, host.host.len) != 0 ||
        !ab_view_is(authority.port, host.port.ptr, host.port.len)) {
      return AB_HTTP_HOST_DIFFERS;
    }
  } else if (!self->authority.ptr) {
    return AB_HTTP_HOST_MISSING;
  }
  request->host = authority.host;
  request->port = authority.port;
  request->authority = authority.whole;
  return AB_OK;
}

static int decide_length(builder *self) {
  const ab_request *request = &self->head->request;
  self->head->length = UINT64_MAX;
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    if (field->id != AB_FIELD_CONTENT_LENGTH) continue;
    ab_view value = {field->value, field->value_len};
    if (!ab_read_length(value, &self->head->length)) return AB_HTTP_LENGTH_SYNTAX;
    if (self->head->length > AB_BODY_CEILING) return AB_HTTP_BODY_TOO_LARGE;
  }
  return AB_OK;
}

/* In the order of http1, as far as the library has not decided. */
static int decide(builder *self, const ab_methods *methods) {
  ab_request *request = &self->head->request;
  bool is_connect = ab_view_is(request->method, "CONNECT", 7);
  if (is_connect && !request->protocol.ptr) return AB_HTTP_METHOD_UNKNOWN;
  if (!ab_is_token(request->method.ptr, request->method.len)) return AB_HTTP_METHOD_SYNTAX;
  int error = ab_target_take(request->target, request);
  if (!error) error = decide_host(self);
  if (!error) error = decide_length(self);
  if (error) return error;
  if (self->expect_unknown) return AB_HTTP_EXPECTATION_UNKNOWN;
  self->head->expects_continue = self->expect_known;
  return is_connect || ab_methods_have(methods, request->method) ? AB_OK : AB_HTTP_METHOD_UNKNOWN;
}

int ab__h2_block_head(const ab__h2_block *self, const ab_mem *mem, const ab_methods *methods,
                      ab_h2_head **head) {
  if (self->error) return self->error;
  /* The lengths of a record are room enough for the "; " of a crumb. */
  size_t fields = self->count * sizeof(ab_field);
  ab_h2_head *made = ab_alloc(mem, sizeof *made + fields + self->len);
  if (!made) return AB_HTTP_NO_MEMORY;
  *made = (ab_h2_head){.request = {.fields = (ab_field *)(made + 1), .major = 2, .minor = 1}};
  builder builder = {.head = made, .text = (char *)(made + 1) + fields};
  take_all(&builder, self);
  made->request.is_head = self->is_head;
  int error = decide(&builder, methods);
  if (error) {
    ab_free(mem, made);
    return error;
  }
  *head = made;
  return AB_OK;
}

/* --- trailers --- */

static char *put_line(char *p, ab_view name, ab_view value) {
  memcpy(p, name.ptr, name.len);
  p += name.len;
  memcpy(p, ": ", 2);
  p += 2;
  if (value.len > 0) memcpy(p, value.ptr, value.len);
  p += value.len;
  memcpy(p, "\r\n", 2);
  return p + 2;
}

int ab__h2_block_trailers(const ab__h2_block *self, const ab_mem *mem, char **lines, size_t *len) {
  *lines = NULL;
  *len = 0;
  if (self->error || self->len == 0) return self->error;
  /* A line's ": " and CRLF take less than a record's lengths. */
  char *made = ab_alloc(mem, self->len), *p = made;
  if (!made) return AB_HTTP_NO_MEMORY;
  ab_view name, value;
  for (size_t at = 0; next_record(self, &at, &name, &value);) {
    if (ab_trailer_allowed(name)) p = put_line(p, name, value);
  }
  if (p == made) {
    ab_free(mem, made);
    return AB_OK;
  }
  *lines = made;
  *len = (size_t)(p - made);
  return AB_OK;
}
