/* What a proxy says of its client before anything else. Runs with the lock held. */
#include "engine/conn.h"

/* The header comes only once: what looks like a second one is a malformed request. */
bool ab__conn_read_proxy_header(ab_conn *conn) {
  ab_opens *opens = conn->engine->opens;
  const ab_addr proxy = conn->peer;
  int size = ab_proxy_parse(conn->in, conn->in_len, conn->service->proxy_versions,
                            ab__conn_limits(conn)->max_proxy_header, &conn->peer);
  if (size == AB_AGAIN) {
    conn->parsed = true;
    return true;
  }
  if (size < 0) {
    ab__conn_fail(conn, size);
    return false;
  }
  if (opens) {
    ab_opens_remove(opens, &proxy);
    ab_opens_add(opens, &conn->peer);
  }
  conn->proxied = false;
  conn->in += size;
  conn->in_len -= (uint32_t)size;
  return true;
}
