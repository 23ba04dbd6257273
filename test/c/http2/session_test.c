/* Requests and responses both ways, with the library's own client as the peer. */
#ifdef AB_HAVE_HTTP2

#include "peer.h"

CHECK_CASE(the_library_says_its_name) {
  CHECK(strncmp(ab_h2_library(), "nghttp2 1.", 10) == 0);
}

CHECK_CASE(a_request_is_answered) {
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  peer_init(&p);
  CHECK(ab_h2_owes(s.h2));
  CHECK(ab_h2_is_amid(s.h2));
  CHECK_INT(
      1, peer_request(&p, PAIRS(PAIRS_OF("GET", "/a?b=c"), "x-a", "1", "te", "trailers"), false));
  play(&s, &p);
  CHECK_INT(1, p.settings);
  CHECK(!ab_h2_is_amid(s.h2));
  CHECK_BYTES("R1 c1", s.events, s.events_len);
  CHECK_BYTES("GET /a?b=c a.test", server_last(&s)->request, strlen(server_last(&s)->request));
  CHECK_BYTES("x-a=1;te=trailers;", server_last(&s)->fields, strlen(server_last(&s)->fields));
  CHECK(server_last(&s)->ended);
  CHECK_BYTES(":status=200;|", p.streams[1].heads, p.streams[1].heads_len);
  CHECK(p.streams[1].ended && p.streams[1].closed && p.streams[1].code == 0);
  CHECK_INT(0, ab_h2_streams(s.h2));
  CHECK_INT(1, ab_h2_requests(s.h2));
  CHECK(!ab_h2_owes(s.h2));
  CHECK(!ab_h2_is_over(s.h2));
  peer_fini(&p);
  server_fini(&s);
}

#else

#include "check.h"
#include "http2/session.h"

CHECK_CASE(without_the_library_there_is_no_session) {
  const ab_limits limits = ab_limits_default();
  const ab_h2_calls calls = {0};
  CHECK(ab_h2_library() == NULL);
  CHECK(ab_h2_init(&ab_mem_libc, &limits, NULL, &calls, NULL) == NULL);
  ab_h2_fini(NULL);
}

#endif

CHECK_MAIN()
