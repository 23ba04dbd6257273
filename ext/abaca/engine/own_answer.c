/* What the engine answers itself, without the application: health checks, what belongs to https,
 * what came to the wrong place. All functions run with the lock held. */
#include "engine/own_answer.h"

#include "http/char.h"

static bool own_keeps(const ab_conn *conn, const ab_framing *framing) {
  uint64_t most = ab__conn_limits(conn)->max_requests_per_connection;
  /* Such requests have no bodies, so a body is not awaited. */
  return framing->keep_alive && framing->body == AB_BODY_NONE && !conn->engine->draining &&
         (most == 0 || conn->served < most);
}

enum ab_write_connection ab__own_answer_begin(ab_conn *conn, const ab_head *head, bool last) {
  conn->served++;
  conn->turn_requests++;
  bool keep = !last && own_keeps(conn, &head->framing);
  conn->in += head->size;
  conn->in_len -= head->size;
  if (head->framing.body != AB_BODY_NONE) conn->lingers = true;
  ab__conn_await_request(conn);
  if (!keep) return AB_WRITE_CLOSE;
  return head->request.minor == 0 ? AB_WRITE_KEEP_IN_1_0 : AB_WRITE_KEEP;
}

void ab__own_answer_end(ab_conn *conn, enum ab_write_connection connection, int error) {
  if (error) {
    ab__conn_drop(conn);
  } else if (connection == AB_WRITE_CLOSE) {
    ab__conn_close(conn);
  }
}

void ab__own_answer_status(ab_conn *conn, const ab_head *head, int status) {
  enum ab_write_connection connection = ab__own_answer_begin(conn, head, false);
  size_t content;
  int error = ab__conn_protocol(conn)->write_error(conn, status, connection, head->request.is_head,
                                                   &content);
  ab__own_answer_end(conn, connection, error);
}

/* --- hosts that another listener is for --- */

size_t ab__host_name(ab_view host, char *name) {
  size_t len = host.len;
  if (len > 0 && host.ptr[len - 1] == '.') len--;
  if (len > AB_HOST_MAX) return 0;
  for (size_t i = 0; i < len; i++) name[i] = ab_lower(host.ptr[i]);
  return len;
}

/* A client that was asked for no certificate, or not in the same way, must not get by this
 * connection to a host for which another listener asks (RFC 9110 7.4). Any other host is the
 * application's to refuse: a client may well ask for several on one connection. */
bool ab__misdirected_answer(ab_conn *conn, const ab_head *head) {
  const ab_engine *engine = conn->engine;
  const ab_tls_context *own = conn->service->tls;
  if (!engine->verify_differs || !own) return false;
  char name[AB_HOST_MAX];
  size_t len = ab__host_name(head->request.host, name);
  if (len == 0 || ab_tls_context_has_name(own, name, len)) return false;
  for (const ab_service *other = engine->services; other; other = other->next) {
    if (!other->tls || ab_tls_context_verify(other->tls) == ab_tls_context_verify(own)) continue;
    if (!ab_tls_context_has_name(other->tls, name, len)) continue;
    ab_figures_fault(conn->engine->stats, 421);
    ab__own_answer_status(conn, head, 421);
    return true;
  }
  return false;
}

/* --- any of them --- */

void ab__own_answer_learn(ab_engine *engine) {
  const ab_tls_context *first = NULL;
  engine->verify_differs = false;
  bool redirects = false;
  for (const ab_service *service = engine->services; service; service = service->next) {
    redirects = redirects || service->redirect || service->redirects_clear;
    if (!service->tls) continue;
    if (!first) first = service->tls;
    if (ab_tls_context_verify(service->tls) != ab_tls_context_verify(first)) {
      engine->verify_differs = true;
    }
  }
  engine->answers = engine->health[AB_HEALTH_READY].ptr || engine->health[AB_HEALTH_LIVE].ptr ||
                    redirects || engine->verify_differs;
}

bool ab__own_answer(ab_conn *conn, const ab_head *head) {
  return (AB_LIKELY(!conn->misplaced) && ab__health_answer(conn, head)) ||
         ab__redirect_answer(conn, head) || ab__misdirected_answer(conn, head);
}
