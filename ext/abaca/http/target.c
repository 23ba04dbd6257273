/* The scan decides first whether each byte may stand in a target; only a complete one is split. So
 * the first offending byte decides the verdict, however the bytes arrived. */
#include "http/target.h"

#include "http/char.h"

/* ls32's second form: four decimal bytes without leading zeros (RFC 3986 3.2.2). */
static bool is_ipv4(const char *ptr, const char *end) {
  for (int part = 0; part < 4; part++) {
    if (part > 0 && (ptr == end || *ptr++ != '.')) return false;
    const char *first = ptr;
    unsigned value = 0;
    while (ptr < end && ptr - first < 3 && ab_is_digit(*ptr)) {
      value = value * 10 + (unsigned)(*ptr++ - '0');
    }
    if (ptr == first || value > 255 || (*first == '0' && ptr - first > 1)) return false;
  }
  return ptr == end;
}

/* IPv6address (RFC 3986 3.2.2): eight groups, one run of them "::", the last two perhaps as IPv4.
 * Zone identifiers mean something on one node only, so they are refused. */
static bool is_ipv6(const char *ptr, const char *end) {
  unsigned groups = 0;
  bool shortened = false;
  if (end - ptr >= 2 && ptr[0] == ':' && ptr[1] == ':') {
    shortened = true;
    ptr += 2;
  }
  while (ptr < end) {
    const char *first = ptr;
    while (ptr < end && ptr - first < 4 && ab_hex_value(*ptr) >= 0) ptr++;
    if (ptr < end && *ptr == '.') {
      groups += 2;
      return is_ipv4(first, end) && (shortened ? groups < 8 : groups == 8);
    }
    if (ptr == first) return false;
    groups++;
    if (ptr == end) break;
    if (*ptr++ != ':' || ptr == end) return false;
    if (*ptr == ':') {
      if (shortened) return false;
      shortened = true;
      ptr++;
    }
  }
  return shortened ? groups < 8 : groups == 8;
}

/* ":" *DIGIT, or nothing at all. */
static bool parse_port(const char *ptr, const char *end, ab_view *port) {
  *port = (ab_view){end, 0};
  if (ptr == end) return true;
  if (*ptr++ != ':' || end - ptr > 5) return false;
  *port = (ab_view){ptr, (size_t)(end - ptr)};
  uint64_t value;
  return port->len == 0 || (ab_parse_digits(ptr, port->len, &value) && value <= 65535);
}

bool ab_authority_parse(ab_view text, ab_authority *authority) {
  const char *ptr = text.ptr, *end = text.ptr + text.len;
  if (text.len == 0) return false;
  if (*ptr == '[') {
    ptr = memchr(ptr, ']', text.len);
    if (!ptr || !is_ipv6(text.ptr + 1, ptr)) return false;
    ptr++;
  } else {
    /* An IPv4 address has the bytes of a reg-name. */
    ptr = ab_skip_class(ptr, end, AB_CHAR_HOST);
  }
  authority->host = (ab_view){text.ptr, (size_t)(ptr - text.ptr)};
  if (authority->host.len == 0 || authority->host.len > AB_HOST_MAX) return false;
  if (!parse_port(ptr, end, &authority->port)) return false;
  authority->whole = authority->port.len ? text : authority->host;
  return true;
}

/* Length of "http://" or "https://" at ptr; 0 for anything else. */
static size_t scheme_len(const char *ptr, const char *end) {
  size_t len = (size_t)(end - ptr);
  if (len >= 7 && ab_equals_nocase(ptr, "http://", 7)) return 7;
  if (len >= 8 && ab_equals_nocase(ptr, "https://", 8)) return 8;
  return 0;
}

/* absolute-form: an empty path means "/" (RFC 9110 4.2.3). request->path still starts with the
 * scheme. */
static bool parse_absolute(ab_request *request, ab_authority *authority) {
  const char *end = request->path.ptr + request->path.len;
  size_t scheme = scheme_len(request->path.ptr, end);
  if (scheme == 0) return false;
  const char *first = request->path.ptr + scheme;
  const char *slash = memchr(first, '/', (size_t)(end - first));
  if (!slash) slash = end;
  request->target_form = AB_TARGET_ABSOLUTE;
  request->path = slash == end ? (ab_view){"/", 1} : (ab_view){slash, (size_t)(end - slash)};
  return ab_authority_parse((ab_view){first, (size_t)(slash - first)}, authority);
}

/* True for origin-form, and for asterisk-form where it may be; the bytes have been checked. */
static bool is_plain(ab_request *request) {
  if (AB_LIKELY(*request->target.ptr == '/')) {
    request->target_form = AB_TARGET_ORIGIN;
    return true;
  }
  request->target_form = AB_TARGET_ASTERISK;
  /* RFC 9112 3.2.4, RFC 9113 8.3.1 */
  return ab_view_is(request->target, "*", 1) && ab_view_is(request->method, "OPTIONS", 7);
}

/* Tells the forms apart; the bytes have been checked. */
static bool split_target(ab_request *request, ab_authority *authority) {
  if (AB_UNLIKELY(ab_view_is(request->method, "CONNECT", 7))) {
    /* Authority-form is CONNECT's only one, and its port is not optional (RFC 9110 9.3.6). */
    request->target_form = AB_TARGET_AUTHORITY;
    request->path = (ab_view){"/", 1};
    return ab_authority_parse(request->target, authority) && authority->port.len > 0;
  }
  return is_plain(request) || parse_absolute(request, authority);
}

/* Why the byte where the target should go on or end with SP is neither. */
static int bad_byte(char byte) {
  if (byte == '\r') return AB_HTTP_REQUEST_LINE_SYNTAX; /* HTTP/0.9 is not spoken here */
  return byte == '\n' ? AB_HTTP_LINE_END : AB_HTTP_TARGET_SYNTAX;
}

/* Sets path and query; returns the first byte that is of neither. */
static const char *scan(const char *ptr, const char *stop, ab_request *request) {
  const char *end = ab_skip_path(ptr, stop);
  request->path = (ab_view){ptr, (size_t)(end - ptr)};
  request->query = (ab_view){NULL, 0};
  if (end < stop && *end == '?') {
    const char *first = end + 1;
    end = ab_skip_query(first, stop);
    request->query = (ab_view){first, (size_t)(end - first)};
  }
  return end;
}

const char *ab_target_parse(const char *ptr, const char *stop, ab_request *request,
                            ab_authority *authority, int *error) {
  const char *end = scan(ptr, stop, request);
  *error = AB_AGAIN;
  if (end == stop) return NULL;
  *error = bad_byte(*end);
  if (*end != ' ' || end == ptr) return NULL;
  request->target = (ab_view){ptr, (size_t)(end - ptr)};
  return split_target(request, authority) ? end : NULL;
}

int ab_target_take(ab_view target, ab_request *request) {
  const char *stop = target.ptr + target.len;
  request->target = target;
  if (target.len == 0 || scan(target.ptr, stop, request) != stop) return AB_HTTP_TARGET_SYNTAX;
  return is_plain(request) ? AB_OK : AB_HTTP_TARGET_SYNTAX;
}
