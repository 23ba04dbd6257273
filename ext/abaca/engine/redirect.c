/* Requests in clear that belong to https: those of a listener that redirects, and those that came
 * in clear to a port where TLS is spoken. All functions run with the lock held. */
#include "engine/redirect.h"

#include <string.h>

#include "base/bits.h"
#include "engine/own_answer.h"
#include "http/char.h"
#include "http/target.h"
#include "http1/write.h"

/* --- terms --- */

static bool size_of(const ab_redirect_terms *terms, size_t *size) {
  if (!ab_mul_size(terms->host_count, sizeof(ab_view), size)) return false;
  for (size_t i = 0; i < terms->host_count; i++) {
    if (!ab_add_size(*size, terms->hosts[i].len, size)) return false;
  }
  return ab_add_size(*size, sizeof(ab_redirect), size);
}

/* The hosts' names follow the structure, in one block of memory. */
ab_redirect *ab__redirect_init(const ab_mem *mem, const ab_redirect_terms *terms) {
  size_t size;
  ab_redirect *redirect = size_of(terms, &size) ? ab_alloc(mem, size) : NULL;
  if (!redirect) return NULL;
  ab_view *hosts = (ab_view *)(redirect + 1);
  char *text = (char *)(hosts + terms->host_count);
  for (size_t i = 0; i < terms->host_count; i++) {
    ab_view host = terms->hosts[i];
    hosts[i] = (ab_view){text, host.len};
    for (size_t k = 0; k < host.len; k++) *text++ = ab_lower(host.ptr[k]);
  }
  *redirect = (ab_redirect){hosts, terms->host_count, terms->port};
  return redirect;
}

/* --- hosts --- */

/* "*.example.com" stands for one more label before it. */
static bool is_host(ab_view pattern, ab_view host) {
  if (pattern.len > 1 && pattern.ptr[0] == '*' && pattern.ptr[1] == '.') {
    const char *dot = host.len ? memchr(host.ptr, '.', host.len) : NULL;
    if (!dot || dot == host.ptr) return false;
    host.len -= (size_t)(dot - host.ptr);
    host.ptr = dot;
    pattern.ptr++;
    pattern.len--;
  }
  return ab_view_spells(host, pattern.ptr, pattern.len);
}

static bool is_certified(const ab_engine *engine, ab_view host) {
  char name[AB_HOST_MAX];
  size_t len = ab__host_name(host, name);
  for (const ab_service *service = engine->services; service; service = service->next) {
    if (service->tls && ab_tls_context_has_name(service->tls, name, len)) return true;
  }
  return false;
}

static bool is_known(const ab_conn *conn, const ab_redirect *redirect, ab_view host) {
  if (host.len > 0 && host.ptr[host.len - 1] == '.') host.len--; /* of the root */
  if (host.len == 0) return false;
  if (redirect->host_count == 0) return is_certified(conn->engine, host);
  for (size_t i = 0; i < redirect->host_count; i++) {
    if (is_host(redirect->hosts[i], host)) return true;
  }
  return false;
}

/* --- requests --- */

static bool is_get(const ab_request *request) {
  return request->is_head || ab_view_is(request->method, "GET", 3);
}

static bool is_of_token(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/* Proves to an authority that signs certificates that the host is ours, in clear (RFC 8555 8.3).
 * Nothing else of the application is to be had that way. */
static bool is_challenge(const ab_request *request) {
  static const char prefix[] = "/.well-known/acme-challenge/";
  size_t len = sizeof prefix - 1;
  ab_view path = request->path;
  if (!is_get(request) || path.len <= len || memcmp(path.ptr, prefix, len) != 0) return false;
  for (size_t i = len; i < path.len; i++) {
    if (!is_of_token(path.ptr[i])) return false;
  }
  return true;
}

/* --- responses --- */

static int write_view(ab_conn *conn, ab_view view) {
  return view.len > 0 ? ab__conn_write(conn, view.ptr, view.len) : AB_OK;
}

static int redirect_write_head(ab_conn *conn, int status) {
  char text[AB_STATUS_LINE_MAX + AB_DATE_FIELD_LEN + sizeof "Location: https://"];
  char *end = ab_write_status_line(text, status);
  memcpy(end, conn->engine->date, AB_DATE_FIELD_LEN);
  end += AB_DATE_FIELD_LEN;
  memcpy(end, "Location: https://", sizeof "Location: https://" - 1);
  end += sizeof "Location: https://" - 1;
  return ab__conn_write(conn, text, (size_t)(end - text));
}

/* The port, where it has to be named. */
static int write_port(ab_conn *conn, unsigned port) {
  char text[1 + AB_DECIMAL_MAX] = ":";
  if (port == 0) return AB_OK;
  return ab__conn_write(conn, text, (size_t)(ab_write_decimal(text + 1, port) - text));
}

static int write_target(ab_conn *conn, const ab_request *request) {
  int error = write_view(conn, request->path);
  if (error || !request->query.ptr) return error;
  error = ab__conn_write(conn, "?", 1);
  return error ? error : write_view(conn, request->query);
}

static int write_end(ab_conn *conn, enum ab_write_connection connection) {
  static const char none[] = "\r\nContent-Length: 0\r\n";
  char text[sizeof none + AB_HEAD_END_MAX];
  memcpy(text, none, sizeof none - 1);
  char *end = ab_write_head_end(text + sizeof none - 1, connection);
  return ab__conn_write(conn, text, (size_t)(end - text));
}

/* What the peer sent comes back in the field, as the parser has checked it. */
static void send_to(ab_conn *conn, const ab_head *head, int status, ab_view host, unsigned port) {
  const ab_request *request = &head->request;
  enum ab_write_connection connection = ab__own_answer_begin(conn, head, conn->misplaced);
  int error = redirect_write_head(conn, status);
  if (!error) error = write_view(conn, host);
  if (!error) error = write_port(conn, port);
  if (!error) error = write_target(conn, request);
  if (!error) error = write_end(conn, connection);
  ab__own_answer_end(conn, connection, error);
}

static void redirect_refuse(ab_conn *conn, const ab_head *head, int status) {
  ab_figures_fault(conn->engine->stats, status);
  if (conn->misplaced) conn->lingers = true;
  ab__own_answer_status(conn, head, status);
}

bool ab__redirect_answer(ab_conn *conn, const ab_head *head) {
  const ab_request *request = &head->request;
  const ab_redirect *redirect = conn->service->redirect;
  if (!conn->misplaced && (!redirect || is_challenge(request))) return false;
  if (request->path.ptr[0] != '/' || request->authority.len == 0) {
    redirect_refuse(conn, head, 400); /* there is no URL to go to */
  } else if (conn->misplaced) {
    send_to(conn, head, 308, request->authority, 0);
  } else if (!is_known(conn, redirect, request->host)) {
    redirect_refuse(conn, head, 421);
  } else {
    send_to(conn, head, is_get(request) ? 301 : 308, request->host, redirect->port);
  }
  return true;
}
