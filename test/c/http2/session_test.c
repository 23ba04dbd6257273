/* Requests and responses both ways, with the library's own client as the peer. */
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

CHECK_MAIN()
