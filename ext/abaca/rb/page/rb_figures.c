/* An engine's figures for Ruby: docs/stats.md says what each means. */
#include "rb/page/rb_page.h"

static void put_count(VALUE hash, const char *name, uint64_t value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), ULL2NUM(value));
}

static VALUE rejections(const ab_figures *figures) {
  VALUE hash = rb_hash_new();
  for (enum ab_rejection why = 0; why < AB_REJECT_COUNT; why++) {
    put_count(hash, ab_rejection_name(why), figures->rejected[why]);
  }
  return hash;
}

void ab_put_figures(VALUE hash, const ab_figures *counted) {
  ab_figures copy = *counted, *figures = &copy;
  ab_figures_put_back(figures);
  put_count(hash, "accepted", figures->accepted);
  put_count(hash, "refused", figures->refused);
  put_count(hash, "requests", figures->requests);
  put_count(hash, "errors", figures->errors);
  put_count(hash, "timeouts", figures->timeouts);
  put_count(hash, "expired", figures->expired);
  put_count(hash, "received", figures->received);
  put_count(hash, "sent", figures->sent);
  put_count(hash, "detached", figures->detached);
  put_count(hash, "taken_over", figures->taken_over);
  put_count(hash, "probes", figures->probes);
  put_count(hash, "moved_out", figures->moved_out);
  put_count(hash, "moved_in", figures->moved_in);
  put_count(hash, "tls_handshakes", figures->tls_handshakes);
  put_count(hash, "tls_resumed", figures->tls_resumed);
  put_count(hash, "tls_failed", figures->tls_failed);
  put_count(hash, "tls_waiting", figures->tls_waiting);
  put_count(hash, "tls_connections", figures->tls_connections);
  put_count(hash, "connections", figures->connections);
  put_count(hash, "in_app", figures->in_app);
  put_count(hash, "waiting", figures->waiting);
  put_count(hash, "held", figures->held);
  put_count(hash, "for_thread", figures->for_thread);
  put_count(hash, "queued", figures->queued);
  put_count(hash, "left", figures->left);
  put_count(hash, "gathering", figures->bodies.coming);
  put_count(hash, "gathered", figures->bodies.bytes);
  rb_hash_aset(hash, ID2SYM(rb_intern("rejected")), rejections(figures));
}
