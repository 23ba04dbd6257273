/* The client behind trusted proxies. The first byte says which fields count; each line of the rest
 * is a field's value, and its first byte takes the name. Whatever stands there, what a trusted
 * proxy adds at its right end counts, and what a stranger sends does not. */
#include "fuzz.h"

#include "http/forwarded.h"

#define FIELDS 16

static const ab_view names[] = {{"X-Forwarded-For", 15},
                                {"forwarded", 9},
                                {"X-Forwarded-Proto", 17},
                                {"X-Real-IP", 9},
                                {"X_Forwarded_For", 15}};

static void add(ab_request *request, ab_view name, const char *value, size_t len) {
  if (request->field_count == FIELDS) return;
  request->fields[request->field_count++] = (ab_field){
      .name = name.ptr, .name_len = (uint16_t)name.len, .value = value, .value_len = (uint32_t)len};
}

static void add_lines(ab_request *request, const char *bytes, size_t len) {
  for (const char *end = bytes + len, *line = bytes; line < end;) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    if (stop > line && request->field_count < FIELDS - 1) {
      add(request, names[(unsigned char)*line % AB_ARRAY_LEN(names)], line + 1,
          (size_t)(stop - line - 1));
    }
    line = stop + (stop < end);
  }
}

static bool same(const ab_addr *a, const ab_addr *b) {
  return a->family == b->family && memcmp(a->bytes, b->bytes, 16) == 0;
}

static void check(const ab_forwarding *forwarding, const ab_addr *peer, const ab_request *request) {
  ab_forwarded result = ab_forwarded_resolve(forwarding, peer, request);
  require(result.scheme <= AB_SCHEME_HTTPS, "there are two schemes");
  char text[AB_ADDR_TEXT_MAX];
  ab_addr again;
  size_t size = ab_addr_text(&result.client, text);
  require(size > 0 && ab_addr_parse(text, size, &again), "the client is an address");
}

/* A proxy adds what it knows to the last line, or as a line of its own. */
static void check_addition(const ab_forwarding *forwarding, const ab_addr *peer,
                           const ab_request *request, ab_field *last, const ab_addr *client) {
  static const char plain[] = ",192.0.2.77", element[] = ", proto=https;for=\"192.0.2.77:1\"";
  const char *added = forwarding->rfc7239 ? element : plain;
  size_t added_len = forwarding->rfc7239 ? sizeof(element) - 1 : sizeof(plain) - 1;
  char *value = malloc(last->value_len + added_len);
  if (!value) abort();
  if (last->value_len) memcpy(value, last->value, last->value_len);
  memcpy(value + last->value_len, added, added_len);
  last->value = value;
  last->value_len += (uint32_t)added_len;
  ab_forwarded result = ab_forwarded_resolve(forwarding, peer, request);
  require(same(&result.client, client), "nothing hides what the proxy has added");
  require(!forwarding->rfc7239 || result.scheme == AB_SCHEME_HTTPS, "nor the scheme");
  free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  ab_net net;
  ab_addr proxy, stranger, client;
  require(ab_net_parse("10.0.0.0/8", 10, &net) && ab_addr_parse("10.0.0.1", 8, &proxy) &&
              ab_addr_parse("198.51.100.1", 12, &stranger) &&
              ab_addr_parse("192.0.2.77", 10, &client),
          "the addresses are good");
  char *bytes = fuzz_copy((const char *)data + 1, size - 1);
  ab_field fields[FIELDS];
  ab_request request = {.fields = fields};
  add_lines(&request, bytes, size - 1);
  ab_forwarding forwarding = {.trusted = &net, .trusted_count = 1, .rfc7239 = data[0] & 1};
  if (data[0] & 2) forwarding.client_field = (ab_view){"x-real-ip", 9};
  check(&forwarding, &proxy, &request);
  ab_forwarded result = ab_forwarded_resolve(&forwarding, &stranger, &request);
  require(same(&result.client, &stranger), "a stranger is the client");
  require(result.scheme == AB_SCHEME_UNSAID, "a stranger says no scheme");

  forwarding.client_field.len = 0;
  ab_view name = names[forwarding.rfc7239];
  ab_field *last = request.field_count ? &fields[request.field_count - 1] : NULL;
  if (!last || last->name != name.ptr) {
    add(&request, name, NULL, 0);
    last = &fields[request.field_count - 1];
  }
  check_addition(&forwarding, &proxy, &request, last, &client);
  free(bytes);
  return 0;
}
