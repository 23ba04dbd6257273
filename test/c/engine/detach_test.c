/* Connections that the application takes over, and the waits of a writer: for room, for the last
 * byte, for the end of the step. */
#include <sys/resource.h>

#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define EXPECT(path, n)                                                                            \
  "POST " path " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " #n "\r\n\r\n"

static char plenty[4 << 20];

static void held_request(fixture *fx, int *client, const char *text) {
  fixture_init(fx);
  fx->hold = true;
  *client = client_open(fx);
  client_send(*client, text);
  fixture_run(fx);
  CHECK_INT(1, fx->held_count);
}

/* Returns the descriptor that the application owns from here on. */
static int detach(fixture *fx, const char **ahead, size_t *len) {
  ab_engine_lock(fx->engine);
  CHECK(!ab_exchange_want_sent(fx->held[0]));
  ab_handover ends;
  CHECK_INT(AB_OK, ab_exchange_prepare_handover(fx->held[0], &ends));
  CHECK_INT(-1, ends.own);
  CHECK_INT(AB_OK, ab_exchange_detach(fx->held[0], &ends, ahead, len));
  ab_engine_unlock(fx->engine);
  return ends.fd;
}

static void finish(fixture *fx) {
  ab_engine_lock(fx->engine);
  ab_exchange_finish(fx->held[0], AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
  fx->held_count = 0;
}

CHECK_CASE(socket_goes_with_what_was_read) {
  fixture fx;
  int client;
  held_request(&fx, &client, GET("/a") "ahead");
  const char *ahead;
  size_t len;
  int fd = detach(&fx, &ahead, &len);
  CHECK(fd >= 0);
  CHECK_INT(5, len);
  CHECK(memcmp(ahead, "ahead", 5) == 0);
  CHECK(ab_exchange_gone(fx.held[0]));
  CHECK_INT(AB_EPEER, ab_exchange_write(fx.held[0], "x", 1));
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(1, stats_of(&fx).detached);
  CHECK_INT(1, stats_of(&fx).in_app);
  finish(&fx);

  /* The engine neither reads, times nor closes it. */
  client_send(client, "later");
  fixture_pass(&fx, 100000);
  CHECK_INT(0, fx.events);
  char text[6] = "";
  CHECK_INT(5, recv(fd, text, 5, 0));
  CHECK(strcmp(text, "later") == 0);
  CHECK_INT(0, stats_of(&fx).in_app);
  close(fd);
  fixture_end(&fx, client);
}

/* A connection whose socket the application has; its request is over. */
static int take_over(fixture *fx, int *client) {
  held_request(fx, client, GET("/a"));
  const char *ahead;
  size_t len;
  int fd = detach(fx, &ahead, &len);
  CHECK_INT(0, len);
  finish(fx);
  return fd;
}

static bool ended(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void drain(fixture *fx) {
  ab_engine_drain(fx->engine, fx->now);
  fixture_pass(fx, 1);
}

CHECK_CASE(it_counts_until_the_application_closes_it) {
  fixture fx;
  int client, fd = take_over(&fx, &client);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_pass(&fx, 5);
  CHECK_INT(1, stats_of(&fx).taken_over);
  close(fd);
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).taken_over);
  CHECK_INT(1, stats_of(&fx).detached);
  CHECK(ended(client));
  CHECK_INT(0, ab_engine_deadline(fx.engine));
  fixture_end(&fx, client);
}

/* What has the number afterwards is never touched, not even by an end that comes before a look. */
CHECK_CASE(another_socket_with_its_number) {
  fixture fx;
  int client, fd = take_over(&fx, &client), pair[2];
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
  CHECK_INT(fd, dup2(pair[0], fd));
  close(pair[0]);
  CHECK_INT(1, stats_of(&fx).taken_over);
  ab_engine_refuse(fx.engine, fx.now);
  drain(&fx);
  CHECK_INT(0, stats_of(&fx).taken_over);
  ab_engine_abort(fx.engine);
  CHECK(!ended(fd) && !ended(pair[1]));
  CHECK_INT(1, write(fd, "x", 1));
  close(fd);
  close(pair[1]);
  fixture_end(&fx, client);
}

/* A drain ends what its reader gets, and nothing else; refuse ends both ways. The descriptor stays
 * the application's all the time. */
CHECK_CASE(a_stop_ends_its_stream) {
  fixture fx;
  int client, fd = take_over(&fx, &client);
  CHECK(!ended(fd));
  drain(&fx);
  CHECK(ended(fd));
  CHECK_INT(1, stats_of(&fx).taken_over);
  CHECK_INT(1, write(fd, "x", 1));
  CHECK(strcmp(client_read(client, NULL), "x") == 0);
  CHECK(!ended(client));
  ab_engine_refuse(fx.engine, fx.now);
  fixture_pass(&fx, 1);
  CHECK(ended(client));
  CHECK_INT(0, stats_of(&fx).taken_over);
  CHECK(fcntl(fd, F_GETFD) >= 0);
  close(fd);
  fixture_end(&fx, client);
}

/* There is no descriptor for the moment: it is done later. */
CHECK_CASE(a_stop_without_descriptors) {
  fixture fx;
  int client, fd = take_over(&fx, &client);
  struct rlimit before, none;
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &before));
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &none));
  drain(&fx);
  CHECK(!ended(fd));
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &before));
  fixture_pass(&fx, 1);
  CHECK(ended(fd));
  close(fd);
  fixture_end(&fx, client);
}

CHECK_CASE(an_abort_ends_it_at_once) {
  fixture fx;
  int client, fd = take_over(&fx, &client);
  ab_engine_abort(fx.engine);
  CHECK(ended(client) && ended(fd));
  CHECK_INT(0, stats_of(&fx).taken_over);
  close(fd);
  fixture_end(&fx, client);
}

/* As in a child process, whose parent has the socket too. */
CHECK_CASE(an_abandoned_engine_leaves_it_alone) {
  fixture fx;
  int client, fd = take_over(&fx, &client);
  ab_engine_abandon(fx.engine);
  ab_engine_abort(fx.engine);
  CHECK(!ended(client) && !ended(fd));
  close(fd);
  fixture_end(&fx, client);
}

/* More than one turn looks at. */
CHECK_CASE(many) {
  fixture fx;
  int client, fd = take_over(&fx, &client);
  ab_engine_lock(fx.engine);
  for (int i = 0; i < 999; i++) CHECK_INT(AB_OK, ab__taken_over_add(fx.engine, fd));
  ab_engine_unlock(fx.engine);
  close(fd);
  fx.now += AB_NSEC_PER_SEC;
  fixture_turn(&fx);
  CHECK_INT(1000 - 256, stats_of(&fx).taken_over);
  CHECK(ab_engine_deadline(fx.engine) <= fx.now);
  for (int i = 0; i < 3; i++) fixture_turn(&fx);
  CHECK_INT(0, stats_of(&fx).taken_over);
  fixture_end(&fx, client);
}

CHECK_CASE(without_memory_nothing_happens) {
  fixture fx;
  int client;
  held_request(&fx, &client, GET("/a"));
  const char *ahead;
  size_t len;
  fx.mem.fail_at = fx.mem.calls + 1;
  ab_engine_lock(fx.engine);
  ab_handover ends;
  CHECK_INT(AB_OK, ab_exchange_prepare_handover(fx.held[0], &ends));
  CHECK_INT(AB_ENOMEM, ab_exchange_detach(fx.held[0], &ends, &ahead, &len));
  ab_engine_unlock(fx.engine);
  CHECK(!ab_exchange_gone(fx.held[0]));
  CHECK_INT(0, stats_of(&fx).detached);
  close(ends.fd);
  answer_held(&fx, 0, "here");
  CHECK(strstr(client_read(client, NULL), "here"));
  fixture_end(&fx, client);
}

CHECK_CASE(whoever_waits_for_the_body_is_told) {
  fixture fx;
  int client;
  held_request(&fx, &client, EXPECT("/a", 5));
  char bytes[8];
  CHECK_INT(AB_AGAIN, read_body(&fx, fx.held[0], bytes, sizeof bytes));
  fixture_run(&fx);
  const char *ahead;
  size_t len;
  int fd = detach(&fx, &ahead, &len);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK_INT(AB_EPEER, read_body(&fx, fx.held[0], bytes, sizeof bytes));
  finish(&fx);
  close(fd);
  fixture_end(&fx, client);
}

/* Half empty is enough for a writer, not for who wants the socket. */
CHECK_CASE(all_has_to_be_sent) {
  fixture fx;
  int client;
  held_request(&fx, &client, GET("/a"));
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[0], plenty, sizeof plenty));
  CHECK(ab_exchange_want_sent(fx.held[0]));
  ab_engine_unlock(fx.engine);
  size_t got = 0;
  for (unsigned i = 0; i < 100000 && !fx.events; i++) {
    static char buf[65536];
    ssize_t n = recv(client, buf, sizeof buf, 0);
    if (n > 0) got += (size_t)n;
    fixture_run(&fx);
    if (fx.events) CHECK_INT(0, ab_exchange_pending(fx.held[0]));
  }
  CHECK_INT(AB_EVENT_DRAINED, fx.events);
  CHECK_INT(sizeof plenty, got + client_drain(&fx, client));
  finish(&fx);
  fixture_end(&fx, client);
}

/* What a later wait for room asks is not what an earlier one asked. */
CHECK_CASE(room_is_less_than_all) {
  fixture fx;
  int client;
  held_request(&fx, &client, GET("/a"));
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[0], plenty, sizeof plenty));
  CHECK(ab_exchange_want_sent(fx.held[0]));
  CHECK(fx.held[0]->wants_sent);
  CHECK(ab_exchange_want_room(fx.held[0]));
  CHECK(!fx.held[0]->wants_sent);
  ab_engine_unlock(fx.engine);
  finish(&fx);
  client_drain(&fx, client);
  fixture_end(&fx, client);
}

CHECK_CASE(later_is_at_the_end_of_the_step) {
  fixture fx;
  int client;
  held_request(&fx, &client, GET("/a"));
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_write(fx.held[0], "one", 3));
  CHECK(ab_exchange_flush_later(fx.held[0]));
  CHECK(ab_exchange_flush_later(fx.held[0]));
  CHECK_INT(3, ab_exchange_pending(fx.held[0]));
  ab_engine_unlock(fx.engine);
  CHECK(strcmp(client_read(client, NULL), "") == 0);
  fixture_turn(&fx);
  CHECK(strcmp(client_read(client, NULL), "one") == 0);
  CHECK_INT(0, ab_exchange_pending(fx.held[0]));
  finish(&fx);
  fixture_end(&fx, client);
}

CHECK_MAIN()
