/* A block of fields while it comes, and what becomes of it: the head of a request, or trailers.
 * Only one block of a connection can be on its way (RFC 9113 4.3), so its memory is the session's
 * and goes when it is complete; what is kept takes one piece of memory of its size. */
#ifndef AB_HTTP2_BLOCK_H
#define AB_HTTP2_BLOCK_H

#include "base/limits.h"
#include "base/mem.h"
#include "http/error.h"
#include "http/methods.h"
#include "http2/session.h"

typedef struct ab__h2_block {
  char *bytes; /* of each field two lengths of 32 bits, the name, the value */
  size_t len, room;
  uint64_t size;    /* as SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113 6.5.2) */
  size_t cookie;    /* bytes of all cookie fields, joined */
  uint32_t records; /* fields in `bytes` */
  uint32_t count;   /* fields but for pseudo-fields, all of cookie as one */
  int error;        /* AB_OK, or an enum ab_http_error; no more is kept then */
  bool is_trailer;
  bool is_head; /* the method is HEAD */
} ab__h2_block;

/* An empty block. */
void ab__h2_block_begin(ab__h2_block *self, bool is_trailer);
/* Frees what it holds. */
void ab__h2_block_end(ab__h2_block *self, const ab_mem *mem);
/* Copies a field, unless that breaks a limit: then `error` says which. */
void ab__h2_block_add(ab__h2_block *self, const ab_mem *mem, const ab_limits *limits, ab_view name,
                      ab_view value);

/* The request that the block makes, in memory of `mem`'s: one piece, that *head gets. Returns AB_OK
 * or an enum ab_http_error. The library has checked names, values, the order and number of
 * pseudo-fields, and the fields of a connection. */
int ab__h2_block_head(const ab__h2_block *self, const ab_mem *mem, const ab_methods *methods,
                      ab_h2_head **head) AB_WARN_UNUSED;

/* The trailers as field lines "name: value\r\n", without those that come too late; *lines is NULL
 * if there are none. Returns AB_OK or an enum ab_http_error. */
int ab__h2_block_trailers(const ab__h2_block *self, const ab_mem *mem, char **lines,
                          size_t *len) AB_WARN_UNUSED;

#endif
