/* Content-Length, Transfer-Encoding, Connection, Expect and Upgrade become one decision. Whatever
 * two recipients could read in two ways is an error (RFC 9112 6.3, 11.2). */
#include "http1/framing.h"

#include "http/char.h"
#include "http/field.h"
#include "http1/head.h"

#define KNOWN(id) (1u << (id))

#define FRAMING_FIELDS                                                                             \
  (KNOWN(AB_FIELD_CONNECTION) | KNOWN(AB_FIELD_CONTENT_LENGTH) |                                   \
   KNOWN(AB_FIELD_TRANSFER_ENCODING) | KNOWN(AB_FIELD_EXPECT) | KNOWN(AB_FIELD_UPGRADE))

/* What the fields say, gathered before it is weighed. */
typedef struct evidence {
  uint64_t length;
  unsigned lengths; /* Content-Length lines */
  unsigned codings; /* but for chunked */
  bool length_bad;
  bool coding_bad;
  bool coding_unknown; /* one that is not registered */
  bool chunked;        /* it is the last coding so far */
  bool close, keep_alive, upgrade;
  bool expect_continue, expect_unknown;
} evidence;

static void read_length(evidence *seen, ab_view value) {
  seen->lengths++;
  seen->length_bad |= !ab_read_length(value, &seen->length);
}

static bool is_registered_coding(ab_view coding) {
  return ab_view_spells(coding, "gzip", 4) || ab_view_spells(coding, "x-gzip", 6) ||
         ab_view_spells(coding, "deflate", 7) || ab_view_spells(coding, "compress", 8) ||
         ab_view_spells(coding, "x-compress", 10);
}

/* Several lines make one list. No registered coding has parameters, and an empty element is a way
 * to hide one coding from a recipient: both are malformed here. */
static void read_codings(evidence *seen, ab_view value) {
  ab_view coding;
  while (ab_next_element(&value, &coding)) {
    if (seen->chunked || !ab_is_token(coding.ptr, coding.len)) {
      seen->coding_bad = true; /* chunked must be the last and applied once (RFC 9112 6.1) */
    } else if (ab_view_spells(coding, "chunked", 7)) {
      seen->chunked = true;
    } else {
      seen->codings++;
      seen->coding_unknown |= !is_registered_coding(coding);
    }
  }
}

static void read_connection(evidence *seen, ab_view value) {
  ab_view option;
  while (ab_next_element(&value, &option)) {
    if (ab_view_spells(option, "close", 5)) seen->close = true;
    if (ab_view_spells(option, "keep-alive", 10)) seen->keep_alive = true;
    if (ab_view_spells(option, "upgrade", 7)) seen->upgrade = true;
  }
}

static void gather(evidence *seen, const ab_request *request) {
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    ab_view value = {field->value, field->value_len};
    if (field->id == AB_FIELD_CONTENT_LENGTH) read_length(seen, value);
    if (field->id == AB_FIELD_TRANSFER_ENCODING) read_codings(seen, value);
    if (field->id == AB_FIELD_CONNECTION) read_connection(seen, value);
    if (field->id == AB_FIELD_EXPECT) {
      ab_read_expect(value, &seen->expect_continue, &seen->expect_unknown);
    }
  }
}

/* A coding that hides the end of the body, or that a lenient peer may overlook, is malformed; one
 * that we only lack is not implemented. */
static int weigh_codings(const evidence *seen, const ab_request *request) {
  if (request->minor == 0) return AB_HTTP_CODING_IN_1_0;
  if (seen->lengths) return AB_HTTP_LENGTH_WITH_CODING;
  if (seen->coding_bad) return AB_HTTP_CODING_SYNTAX;
  if (!seen->chunked) return AB_HTTP_CODING_UNKNOWN;
  if (seen->coding_unknown) return AB_HTTP_CODING_SYNTAX;
  return seen->codings ? AB_HTTP_CODING_UNKNOWN : AB_OK;
}

static int weigh_length(const evidence *seen) {
  if (seen->lengths > 1) return AB_HTTP_LENGTH_REPEATED;
  if (seen->length_bad) return AB_HTTP_LENGTH_SYNTAX;
  return seen->length > AB_BODY_CEILING ? AB_HTTP_BODY_TOO_LARGE : AB_OK;
}

static int decide_body(const evidence *seen, const ab_request *request, ab_framing *framing) {
  if (request->known & KNOWN(AB_FIELD_TRANSFER_ENCODING)) {
    framing->body = AB_BODY_CHUNKED;
    return weigh_codings(seen, request);
  }
  framing->body = seen->length ? AB_BODY_LENGTH : AB_BODY_NONE;
  framing->length = seen->length;
  framing->has_length = seen->lengths > 0;
  return weigh_length(seen);
}

int ab_framing_decide(ab_head *head) {
  ab_request *request = &head->request;
  ab_framing *framing = &head->framing;
  bool is_1_1 = request->minor > 0;
  *framing = (ab_framing){.body = AB_BODY_NONE, .keep_alive = is_1_1};
  if (!(request->known & FRAMING_FIELDS)) return AB_OK;

  evidence seen = {0};
  gather(&seen, request);
  int error = decide_body(&seen, request, framing);
  if (error) return error;
  framing->keep_alive = !seen.close && (is_1_1 || seen.keep_alive);
  if (!is_1_1) return AB_OK; /* 1.0 knows neither Expect nor Upgrade (RFC 9110 7.8, 10.1.1) */
  if (seen.expect_unknown) return AB_HTTP_EXPECTATION_UNKNOWN;
  framing->expect_continue = seen.expect_continue && framing->body != AB_BODY_NONE;
  request->upgrade = seen.upgrade && (request->known & KNOWN(AB_FIELD_UPGRADE));
  return AB_OK;
}
