/* One pass over a head that is complete, in the order of its bytes. A head that comes in pieces is
 * checked line by line, and parsed from its start when its end has come: so only two numbers are
 * kept between calls. README.md says in which order errors are found, so that the verdict does not
 * depend on how the bytes were split. */
#include "http1/head.h"

#include <string.h>

#include "http/char.h"
#include "http/field.h"
#include "http/target.h"

/* RFC 9112 2.2 asks to skip "at least one" empty line before a request; old clients send one. */
#define EMPTY_LINES_MAX 4

/* The size of a head is returned as an int. */
#define HEAD_CEILING ((uint64_t)1 << 30)

typedef struct head_parser {
  ab_head *head;
  ab_request *request; /* the head's */
  const ab_methods *methods;
  const char *start;      /* of the head */
  const char *end;        /* of what may be looked at: received, and within max_head_size */
  const char *checked;    /* everything before it is complete, valid lines */
  ab_view host;           /* value of the first Host field */
  ab_authority authority; /* of the target; host.len is 0 when it has none */
  uint64_t head_max;
  uint64_t request_line_max;
  uint64_t field_line_max;
  uint32_t field_max;
  int result; /* AB_AGAIN or an error: why a step returned NULL */
  char major;
  bool method_served;
  bool host_repeated;
} head_parser;

static const char *fail(head_parser *self, int error) {
  self->result = error;
  return NULL;
}

/* Where the line that starts at `line` must have ended with its CRLF, as far as we may look. */
static const char *line_stop(const head_parser *self, const char *line, uint64_t max) {
  return (uint64_t)(self->end - line) > max + 2 ? line + max + 2 : self->end;
}

/* A line has reached its stop without an end: too long, head too long, or not all here yet. */
static const char *run_out(head_parser *self, const char *line, uint64_t max, int error) {
  if ((uint64_t)(self->end - line) >= max + 2) return fail(self, error);
  if ((uint64_t)(self->end - self->start) >= self->head_max) {
    return fail(self, AB_HTTP_HEAD_TOO_LONG);
  }
  return fail(self, AB_AGAIN);
}

static const char *request_line_run_out(head_parser *self, const char *line) {
  return run_out(self, line, self->request_line_max, AB_HTTP_REQUEST_LINE_TOO_LONG);
}

static const char *field_run_out(head_parser *self, const char *line) {
  return run_out(self, line, self->field_line_max, AB_HTTP_FIELD_TOO_LONG);
}

/* Returns the byte behind the SP that ends the method. */
static const char *parse_method(head_parser *self, const char *line, const char *stop) {
  const char *most = stop - line > AB_METHOD_MAX + 1 ? line + AB_METHOD_MAX + 1 : stop;
  const char *end = ab_skip_token(line, most);
  size_t len = (size_t)(end - line);
  if (len > AB_METHOD_MAX) return fail(self, AB_HTTP_METHOD_TOO_LONG);
  if (end == stop) return request_line_run_out(self, line);
  if (*end == '\n') return fail(self, AB_HTTP_LINE_END);
  if (*end != ' ' || len == 0) return fail(self, AB_HTTP_METHOD_SYNTAX);
  ab_request *request = self->request;
  request->method = (ab_view){line, len};
  request->is_head = ab_view_is(request->method, "HEAD", 4);
  self->method_served = ab_methods_have(self->methods, request->method);
  return end + 1;
}

/* Why the line does not end where it should. */
static int version_tail_error(char byte) {
  if (byte == '\n') return AB_HTTP_LINE_END;
  return ab_is_blank(byte) ? AB_HTTP_REQUEST_LINE_SYNTAX : AB_HTTP_VERSION_SYNTAX;
}

/* HTTP-version and CRLF byte by byte, so that the first wrong one is found although later ones
 * are not there. Returns what is behind the CRLF. */
static const char *parse_version_slowly(head_parser *self, const char *line, const char *ptr,
                                        const char *stop) {
  static const char pattern[] = "HTTP/d.d\r\n";
  for (size_t i = 0; pattern[i]; i++, ptr++) {
    if (ptr == stop) return request_line_run_out(self, line);
    if (pattern[i] == 'd' ? ab_is_digit(*ptr) : *ptr == pattern[i]) continue;
    if (pattern[i] == '\n') return fail(self, AB_HTTP_LINE_END);
    if (pattern[i] == '\r') return fail(self, version_tail_error(*ptr));
    return fail(self, AB_HTTP_VERSION_SYNTAX);
  }
  self->major = ptr[-5];
  /* A higher minor version is a request of the highest one we know (RFC 9110 2.5). */
  self->request->minor = ptr[-3] != '0';
  return ptr;
}

static const char *parse_version(head_parser *self, const char *line, const char *ptr,
                                 const char *stop) {
  if (AB_LIKELY(stop - ptr >= 10 && memcmp(ptr, "HTTP/1.1\r\n", 10) == 0)) {
    self->major = '1';
    self->request->minor = 1;
    return ptr + 10;
  }
  return parse_version_slowly(self, line, ptr, stop);
}

/* Returns the first field line. */
static const char *parse_request_line(head_parser *self, const char *line) {
  const char *stop = line_stop(self, line, self->request_line_max);
  const char *ptr = parse_method(self, line, stop);
  if (!ptr) return NULL;
  int error;
  ptr = ab_target_parse(ptr, stop, self->request, &self->authority, &error);
  if (!ptr) return error == AB_AGAIN ? request_line_run_out(self, line) : fail(self, error);
  return parse_version(self, line, ptr + 1, stop);
}

/* Returns the request line. */
static const char *skip_empty_lines(head_parser *self, const char *ptr) {
  for (int lines = 0;; lines++) {
    if (ptr == self->end) return run_out(self, ptr, UINT32_MAX, AB_HTTP_HEAD_TOO_LONG);
    if (*ptr == '\n') return fail(self, AB_HTTP_LINE_END);
    if (AB_LIKELY(*ptr != '\r')) return ptr;
    if (lines == EMPTY_LINES_MAX) return fail(self, AB_HTTP_REQUEST_LINE_SYNTAX);
    if (++ptr == self->end) return run_out(self, ptr, UINT32_MAX, AB_HTTP_HEAD_TOO_LONG);
    if (*ptr++ != '\n') return fail(self, AB_HTTP_LINE_END);
  }
}

static void note_field(head_parser *self, const ab_field *field) {
  ab_request *request = self->request;
  if (field->id == AB_FIELD_HOST) {
    if (request->known & 1u << AB_FIELD_HOST) {
      self->host_repeated = true;
    } else {
      self->host = (ab_view){field->value, field->value_len};
    }
  }
  request->known |= (uint16_t)(1u << field->id);
}

/* Returns the ":" that ends the name. */
static const char *parse_name(head_parser *self, const char *line, const char *stop,
                              ab_field *field) {
  const char *end = ab_skip_token(line, stop);
  /* A name that name_len cannot hold is refused before what follows it is looked at. */
  if (AB_UNLIKELY(end - line > UINT16_MAX)) return fail(self, AB_HTTP_FIELD_TOO_LONG);
  if (end == stop) return field_run_out(self, line);
  if (AB_UNLIKELY(*end != ':' || end == line)) {
    if (*end == '\n') return fail(self, AB_HTTP_LINE_END);
    bool folded = end == line && ab_is_blank(*end);
    return fail(self, folded ? AB_HTTP_FIELD_FOLDED : AB_HTTP_FIELD_NAME_SYNTAX);
  }
  field->name = line;
  field->name_len = (uint16_t)(end - line);
  return end;
}

/* Returns the next line. */
static const char *parse_field(head_parser *self, const char *line, ab_field *field) {
  const char *stop = line_stop(self, line, self->field_line_max);
  const char *ptr = parse_name(self, line, stop, field);
  if (!ptr) return NULL;
  for (ptr++; ptr < stop && ab_is_blank(*ptr);) ptr++;
  const char *end = ab_skip_value(ptr, stop);
  if (end == stop) return field_run_out(self, line);
  if (AB_UNLIKELY(*end != '\r')) {
    return fail(self, *end == '\n' ? AB_HTTP_LINE_END : AB_HTTP_FIELD_VALUE_SYNTAX);
  }
  if (end + 1 == stop) return field_run_out(self, line);
  if (AB_UNLIKELY(end[1] != '\n')) return fail(self, AB_HTTP_LINE_END);
  const char *last = end;
  while (last > ptr && ab_is_blank(last[-1])) last--;
  field->value = ptr;
  field->value_len = (uint32_t)(last - ptr);
  field->id = ab_field_id(line, field->name_len);
  if (field->id) note_field(self, field);
  return end + 2;
}

/* Parses from a field line, or from the empty line, on. Returns the end of the head. */
static const char *parse_fields(head_parser *self, const char *ptr) {
  ab_request *request = self->request;
  for (;;) {
    self->checked = ptr;
    if (ptr == self->end) return field_run_out(self, ptr);
    if (*ptr == '\r') break;
    if (request->field_count == self->field_max) return fail(self, AB_HTTP_FIELD_TOO_MANY);
    ptr = parse_field(self, ptr, &request->fields[request->field_count]);
    if (!ptr) return NULL;
    request->field_count++;
  }
  if (ptr + 1 == self->end) return field_run_out(self, ptr);
  return ptr[1] == '\n' ? ptr + 2 : fail(self, AB_HTTP_LINE_END);
}

/* Host is checked even where the target's authority takes its place (RFC 9112 3.2.2). */
static int decide_host(head_parser *self) {
  ab_request *request = self->request;
  ab_authority field = {0};
  if (request->known & 1u << AB_FIELD_HOST) {
    if (self->host_repeated) return AB_HTTP_HOST_REPEATED;
    if (!ab_authority_parse(self->host, &field)) return AB_HTTP_HOST_SYNTAX;
  } else if (request->minor > 0) {
    return AB_HTTP_HOST_MISSING;
  }
  const ab_authority *effective = self->authority.host.len ? &self->authority : &field;
  request->host = effective->host;
  request->port = effective->port;
  request->authority = effective->whole;
  return AB_OK;
}

static int decide(head_parser *self) {
  if (self->major != '1') return AB_HTTP_VERSION_UNSUPPORTED;
  int error = decide_host(self);
  if (error) return error;
  error = ab_framing_decide(self->head);
  if (error) return error;
  return self->method_served ? AB_OK : AB_HTTP_METHOD_UNKNOWN;
}

static uint64_t at_most(uint64_t value, uint64_t ceiling) {
  return value < ceiling ? value : ceiling;
}

static void parser_init(head_parser *self, const char *buf, size_t len, const ab_limits *limits,
                        const ab_methods *methods, ab_head *head, ab_field *fields) {
  uint64_t head_max = at_most(limits->max_head_size, HEAD_CEILING);
  *head = (ab_head){.request = {.fields = fields, .major = 1}};
  *self = (head_parser){
      .head = head,
      .request = &head->request,
      .methods = methods,
      .start = buf,
      .end = buf + at_most(len, head_max),
      .checked = buf,
      .head_max = head_max,
      .request_line_max = at_most(limits->max_request_line, HEAD_CEILING),
      .field_line_max = at_most(limits->max_header_line, HEAD_CEILING),
      .field_max = (uint32_t)at_most(limits->max_header_count, UINT32_MAX),
  };
}

/* Parses from the start of the head; returns its end. */
static const char *parse_whole(head_parser *self) {
  const char *ptr = skip_empty_lines(self, self->start);
  if (ptr) ptr = parse_request_line(self, ptr);
  return ptr ? parse_fields(self, ptr) : NULL;
}

/* Goes on behind the lines that an earlier call has checked. */
static const char *parse_rest(head_parser *self, const ab_head_progress *progress) {
  self->request->field_count = progress->lines;
  return parse_fields(self, self->start + progress->checked);
}

int ab_head_parse(const char *buf, size_t len, const ab_limits *limits, const ab_methods *methods,
                  ab_head_progress *progress, ab_head *head, ab_field *fields) {
  head_parser parser;
  parser_init(&parser, buf, len, limits, methods, head, fields);
  const char *end;
  if (AB_UNLIKELY(progress->checked)) {
    end = parse_rest(&parser, progress);
    if (end) {
      parser_init(&parser, buf, len, limits, methods, head, fields);
      end = parse_whole(&parser);
    }
  } else {
    end = parse_whole(&parser);
  }
  if (!end) {
    progress->checked = (uint32_t)(parser.checked - buf);
    progress->lines = head->request.field_count;
    return parser.result;
  }
  head->size = (uint32_t)(end - buf);
  int error = decide(&parser);
  return error ? error : (int)head->size;
}
