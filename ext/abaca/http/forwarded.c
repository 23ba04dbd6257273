/* Read from right to left: a client's garbage stands to the left of what the proxies have added,
 * and cannot change how that is understood. */
#include "http/forwarded.h"

#include <string.h>

#include "http/char.h"

/* --- lists from their end --- */

/* All lines of one field, which are one list (RFC 9110 5.3), from the last element to the first. */
typedef struct list_walk {
  const ab_request *request;
  ab_view name;
  bool quoted_strings; /* may be in the elements */
  uint32_t line;       /* lines of the head before this one are left */
  const char *start;   /* what is left of the current line; NULL: nothing */
  const char *end;
} list_walk;

static list_walk walk_from_the_end(const ab_request *request, ab_view name, bool quoted_strings) {
  return (list_walk){request, name, quoted_strings, request->field_count, NULL, NULL};
}

/* "X_Forwarded_For" is another name, which proxies do not remove. */
static bool previous_line(list_walk *self) {
  while (self->line > 0) {
    const ab_field *field = &self->request->fields[--self->line];
    if (!ab_view_spells((ab_view){field->name, field->name_len}, self->name.ptr, self->name.len))
      continue;
    self->start = field->value;
    self->end = field->value + field->value_len;
    return true;
  }
  return false;
}

/* True for a DQUOTE at ptr that a quoted-pair has made an ordinary byte. */
static bool is_escaped(const char *start, const char *ptr) {
  const char *p = ptr;
  while (p > start && p[-1] == '\\') p--;
  return (ptr - p) % 2 != 0;
}

static const char *last_comma(const list_walk *self) {
  bool quoted = false;
  for (const char *p = self->end; p-- > self->start;) {
    if (*p == ',' && !quoted) return p;
    if (*p == '"' && self->quoted_strings && !is_escaped(self->start, p)) quoted = !quoted;
  }
  return NULL;
}

/* The next element to the left; empty ones do not count (RFC 9110 5.6.1). */
static bool walk_left(list_walk *self, ab_view *element) {
  for (;;) {
    if (!self->start && !previous_line(self)) return false;
    const char *comma = last_comma(self);
    *element = ab_view_trim(comma ? comma + 1 : self->start, self->end);
    if (comma) {
      self->end = comma;
    } else {
      self->start = NULL;
    }
    if (element->len > 0) return true;
  }
}

/* --- values --- */

/* Behind the ":" of a node: a number, or an obfuscated port (RFC 7239 6.3); not used. */
static bool is_port(const char *ptr, const char *end) {
  if (ptr < end && *ptr == '_') {
    for (ptr++; ptr < end; ptr++) {
      if (!ab_is_digit(*ptr) && !strchr("._-", *ptr) &&
          ((*ptr | 0x20) < 'a' || (*ptr | 0x20) > 'z'))
        return false;
    }
    return true;
  }
  size_t len = (size_t)(end - ptr);
  while (ptr < end && ab_is_digit(*ptr)) ptr++;
  return ptr == end && len > 0 && len <= 5;
}

/* An address, with or without a port; IPv6 with brackets, or without a port. "unknown" and
 * obfuscated names are no addresses. */
static bool parse_node(ab_view node, ab_addr *addr) {
  if (node.len == 0) return false;
  const char *end = node.ptr + node.len;
  if (*node.ptr == '[') {
    const char *close = memchr(node.ptr, ']', node.len);
    if (!close || (close + 1 < end && (close[1] != ':' || !is_port(close + 2, end)))) return false;
    size_t len = (size_t)(close - node.ptr - 1);
    return memchr(node.ptr, ':', len + 1) && ab_addr_parse(node.ptr + 1, len, addr);
  }
  const char *colon = memchr(node.ptr, ':', node.len);
  if (colon && !memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
    if (!is_port(colon + 1, end)) return false;
    end = colon;
  }
  return ab_addr_parse(node.ptr, (size_t)(end - node.ptr), addr);
}

/* WebSocket's schemes are those of the HTTP that they begin with. */
static uint8_t scheme_of(ab_view text) {
  if (ab_view_spells(text, "https", 5) || ab_view_spells(text, "wss", 3)) return AB_SCHEME_HTTPS;
  if (ab_view_spells(text, "http", 4) || ab_view_spells(text, "ws", 2)) return AB_SCHEME_HTTP;
  return AB_SCHEME_UNSAID;
}

/* --- Forwarded --- */

/* One element of Forwarded: what one proxy says about its client. */
typedef struct hop {
  ab_view node, proto; /* without quotes; ptr NULL: not given */
} hop;

/* Returns the end of the value at ptr, or NULL. Quoted-pairs stay: no address or scheme needs one.
 * More than a token is taken, because proxies forget the quotes around "1.2.3.4:80". */
static const char *parse_value(const char *ptr, const char *end, ab_view *value) {
  if (ptr < end && *ptr == '"') {
    const char *start = ++ptr;
    while (ptr < end && *ptr != '"') ptr += *ptr == '\\' && end - ptr > 1 ? 2 : 1;
    if (ptr == end) return NULL;
    *value = (ab_view){start, (size_t)(ptr - start)};
    return ptr + 1;
  }
  const char *start = ptr;
  while (ptr < end && *ptr != ';' && *ptr != '"' && !ab_is_blank(*ptr)) ptr++;
  *value = (ab_view){start, (size_t)(ptr - start)};
  return ptr > start ? ptr : NULL;
}

static const char *skip_blanks(const char *ptr, const char *end) {
  while (ptr < end && ab_is_blank(*ptr)) ptr++;
  return ptr;
}

/* forwarded-element (RFC 7239 4), with blanks around its ";". A parameter may not come twice. */
static bool parse_hop(ab_view element, hop *parsed) {
  const char *ptr = element.ptr, *end = ptr + element.len;
  *parsed = (hop){0};
  for (;;) {
    ptr = skip_blanks(ptr, end);
    if (ptr < end && *ptr != ';') {
      const char *name = ptr;
      ptr = ab_skip_token(ptr, end);
      ab_view key = {name, (size_t)(ptr - name)}, value;
      if (key.len == 0 || ptr == end || *ptr != '=') return false;
      ptr = parse_value(ptr + 1, end, &value);
      if (!ptr) return false;
      ab_view *wanted = ab_view_spells(key, "for", 3)     ? &parsed->node
                        : ab_view_spells(key, "proto", 5) ? &parsed->proto
                                                          : NULL;
      if (wanted && wanted->ptr) return false;
      if (wanted) *wanted = value;
      ptr = skip_blanks(ptr, end);
    }
    if (ptr == end) return true;
    if (*ptr++ != ';') return false;
  }
}

/* --- the way back to the client --- */

static bool is_trusted(const ab_forwarding *forwarding, const ab_addr *addr) {
  return ab_nets_include(forwarding->trusted, forwarding->trusted_count, addr);
}

static void follow_forwarded(const ab_forwarding *forwarding, const ab_request *request,
                             bool only_scheme, ab_forwarded *result) {
  list_walk walk = walk_from_the_end(request, (ab_view){"forwarded", 9}, true);
  ab_view element;
  for (unsigned hops = 0; hops < AB_FORWARDED_HOPS && walk_left(&walk, &element); hops++) {
    hop said;
    result->scheme = AB_SCHEME_UNSAID;
    if (!parse_hop(element, &said)) return;
    result->scheme = scheme_of(said.proto);
    if (only_scheme || !parse_node(said.node, &result->client)) return;
    if (!is_trusted(forwarding, &result->client)) return;
  }
}

/* Returns the place, from the right, of the element at which the way ends. */
static unsigned follow_addresses(const ab_forwarding *forwarding, const ab_request *request,
                                 ab_forwarded *result) {
  list_walk walk = walk_from_the_end(request, (ab_view){"x-forwarded-for", 15}, false);
  ab_view element;
  unsigned at = 0;
  for (; at < AB_FORWARDED_HOPS && walk_left(&walk, &element); at++) {
    if (!parse_node(element, &result->client) || !is_trusted(forwarding, &result->client))
      return at;
  }
  return at > 0 ? at - 1 : 0;
}

/* The scheme noted with the address in place `at` from the right. Proxies usually write one each,
 * or share that of the first; any other number leaves nothing to rely on. */
static uint8_t scheme_at(const ab_request *request, unsigned at) {
  list_walk walk = walk_from_the_end(request, (ab_view){"x-forwarded-proto", 17}, false);
  ab_view element = {NULL, 0};
  unsigned count = 0;
  while (count <= at && walk_left(&walk, &element)) count++;
  return count == at + 1 || count == 1 ? scheme_of(element) : AB_SCHEME_UNSAID;
}

/* The first word, as Puma takes it from the field of its set_remote_address. */
static void read_client_field(ab_view name, const ab_request *request, ab_addr *client) {
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    if (!ab_view_spells((ab_view){field->name, field->name_len}, name.ptr, name.len)) continue;
    const char *end = field->value, *last = end + field->value_len;
    while (end < last && *end != ',' && !ab_is_blank(*end)) end++;
    ab_addr addr;
    if (parse_node((ab_view){field->value, (size_t)(end - field->value)}, &addr)) *client = addr;
    return;
  }
}

ab_forwarded ab_forwarded_resolve(const ab_forwarding *forwarding, const ab_addr *peer,
                                  const ab_request *request) {
  ab_forwarded result = {*peer, AB_SCHEME_UNSAID};
  bool trusted = is_trusted(forwarding, peer), field = forwarding->client_field.len > 0;
  if (field && (trusted || forwarding->trusted_count == 0)) {
    read_client_field(forwarding->client_field, request, &result.client);
  }
  if (!trusted) return result;
  if (forwarding->rfc7239) {
    follow_forwarded(forwarding, request, field, &result);
  } else {
    result.scheme = scheme_at(request, field ? 0 : follow_addresses(forwarding, request, &result));
  }
  return result;
}
