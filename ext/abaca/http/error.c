/* The table of error.h as two look-ups. */
#include "http/error.h"

#include "base/base.h"

typedef struct error_entry {
  int status;
  const char *reason;
} error_entry;

static const error_entry entries[] = {
#define ENTRY(name, status, reason, rfc) {status, reason},
    AB_HTTP_ERRORS(ENTRY)
#undef ENTRY
};

/* An error that is not of the table is a bug of the caller: it must not become a 2xx. */
static const error_entry unknown = {500, "error is not known"};

static const error_entry *find(int error) {
  int index = error - AB_HTTP_ERROR_BASE - 1;
  return index >= 0 && index < (int)AB_ARRAY_LEN(entries) ? &entries[index] : &unknown;
}

int ab_http_error_status(int error) {
  return find(error)->status;
}

const char *ab_http_error_reason(int error) {
  return find(error)->reason;
}
