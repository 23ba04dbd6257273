/* What each enum ab_http1_error means to a client and to a reader of the log: the table of head.h
 * as three look-ups. */
#include "http1/head.h"

typedef struct error_entry {
  int status;
  const char *reason;
  const char *rfc;
} error_entry;

static const error_entry entries[] = {
#define ENTRY(name, status, reason, rfc) {status, reason, rfc},
    AB_HTTP1_ERRORS(ENTRY)
#undef ENTRY
};

/* An error that is not of the table is a bug of the caller: it must not become a 2xx. */
static const error_entry unknown = {500, "error is not known", "9110 15.6.1"};

static const error_entry *find(int error) {
  int index = error - AB_HTTP1_ERROR_BASE - 1;
  return index >= 0 && index < (int)AB_ARRAY_LEN(entries) ? &entries[index] : &unknown;
}

int ab_http1_error_status(int error) {
  return find(error)->status;
}

const char *ab_http1_error_reason(int error) {
  return find(error)->reason;
}

const char *ab_http1_error_rfc(int error) {
  return find(error)->rfc;
}
