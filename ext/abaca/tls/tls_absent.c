/* A build without the library: there is no context, so that nothing else here is ever called. */
#ifndef AB_HAVE_TLS

#include <stdio.h>

#include "tls/context.h"
#include "tls/session.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *ab_tls_library(void) {
  return NULL;
}

ab_tls_context *ab_tls_context_new(const ab_mem *mem, const ab_tls_options *options,
                                   int64_t now_unix, ab_tls_problem *problem) {
  snprintf(problem->text, sizeof problem->text, "this Abaca was built without OpenSSL");
  return NULL;
}

ab_tls_context *ab_tls_context_hold(ab_tls_context *context) {
  return context;
}

void ab_tls_context_release(ab_tls_context *context) {}

size_t ab_tls_context_certificates(const ab_tls_context *context) {
  return 0;
}

const ab_tls_certificate *ab_tls_context_certificate(const ab_tls_context *context, size_t index) {
  return NULL;
}

enum ab_tls_verify ab_tls_context_verify(const ab_tls_context *context) {
  return AB_TLS_VERIFY_NONE;
}

bool ab_tls_context_has_name(const ab_tls_context *context, const char *name, size_t len) {
  return false;
}

ab_tls *ab_tls_init(const ab_mem *mem, ab_tls_context *context) {
  return NULL;
}

void ab_tls_fini(ab_tls *tls) {}

int ab_tls_handshake(ab_tls *tls, ab_tls_wire *wire, bool may_sign, int64_t now_unix) {
  return AB_EPEER;
}

ssize_t ab_tls_read(ab_tls *tls, ab_tls_wire *wire, char *buf, size_t len) {
  return AB_EPEER;
}

bool ab_tls_has_bytes(const ab_tls *tls) {
  return false;
}

int ab_tls_write(ab_tls *tls, ab_tls_wire *wire, const char *ptr, size_t len) {
  return AB_EPEER;
}

void ab_tls_end(ab_tls *tls, ab_tls_wire *wire) {}

bool ab_tls_is_done(const ab_tls *tls) {
  return false;
}

const char *ab_tls_version(const ab_tls *tls) {
  return NULL;
}

const char *ab_tls_cipher(const ab_tls *tls) {
  return NULL;
}

int ab_tls_cipher_bits(const ab_tls *tls) {
  return 0;
}

ab_view ab_tls_server_name(const ab_tls *tls) {
  return (ab_view){NULL, 0};
}

bool ab_tls_knows_name(const ab_tls *tls) {
  return true;
}

bool ab_tls_chose_http2(const ab_tls *tls) {
  return false;
}

const char *ab_tls_protocol(const ab_tls *tls) {
  return NULL;
}

bool ab_tls_is_resumed(const ab_tls *tls) {
  return false;
}

long ab_tls_verify_result(const ab_tls *tls) {
  return 0;
}

size_t ab_tls_peer_certificate(const ab_tls *tls, unsigned char *buf, size_t room) {
  return 0;
}

size_t ab_tls_peer_subject(const ab_tls *tls, char *buf, size_t room) {
  return 0;
}

bool ab_tls_peer_has_ended(const ab_tls *tls) {
  return false;
}

const char *ab_tls_fault(const ab_tls *tls) {
  return NULL;
}

#endif
