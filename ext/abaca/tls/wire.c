/* The network as OpenSSL sees it: the two places that a call has been given. It has no memory of
 * its own, and makes no system call. */
#ifdef AB_HAVE_TLS

#include <string.h>

#include "tls/internal.h"

static int wire_read(BIO *bio, char *buf, int len) {
  ab_tls *tls = BIO_get_data(bio);
  ab_tls_wire *wire = tls->wire;
  BIO_clear_retry_flags(bio);
  if (len <= 0) return 0;
  if (ab__tls_is_excessive(tls)) return -1; /* an error: OpenSSL asks for no more */
  if (!wire || wire->in_len == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  size_t part = (size_t)len < wire->in_len ? (size_t)len : wire->in_len;
  memcpy(buf, wire->in, part);
  wire->in += part;
  wire->in_len -= part;
  return (int)part;
}

static int wire_write(BIO *bio, const char *ptr, int len) {
  ab_tls *tls = BIO_get_data(bio);
  ab_tls_wire *wire = tls->wire;
  BIO_clear_retry_flags(bio);
  if (len <= 0) return 0;
  size_t room = wire ? wire->out_size - wire->out_len : 0;
  if (room == 0) {
    BIO_set_retry_write(bio);
    return -1;
  }
  size_t part = (size_t)len < room ? (size_t)len : room;
  memcpy(wire->out + wire->out_len, ptr, part);
  wire->out_len += part;
  return (int)part;
}

static long wire_control(BIO *bio AB_UNUSED, int command, long number AB_UNUSED,
                         void *ptr AB_UNUSED) {
  return command == BIO_CTRL_FLUSH;
}

static int wire_create(BIO *bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BIO_METHOD *ab__tls_wire_method(void) {
  BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "abaca");
  if (method && BIO_meth_set_read(method, wire_read) == 1 &&
      BIO_meth_set_write(method, wire_write) == 1 && BIO_meth_set_ctrl(method, wire_control) == 1 &&
      BIO_meth_set_create(method, wire_create) == 1) {
    return method;
  }
  BIO_meth_free(method);
  return NULL;
}

#endif
