/* Files that wait for peers who do not read: how many there may be for one and for all, and who
 * goes when there are more. */
#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

enum { FILE_LEN = 1000 };

/* A file of letters; the engine borrows it, so that one descriptor does. */
static int letters(void) {
  FILE *file = tmpfile();
  if (!file) abort();
  for (int i = 0; i < FILE_LEN; i++) fputc('a' + i % 26, file);
  fflush(file);
  int fd = dup(fileno(file));
  fclose(file);
  return fd;
}

static void answer_with_file(fixture *fx, ab_exchange *exchange, int fd) {
  char head[64];
  int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", FILE_LEN);
  ab_engine_lock(fx->engine);
  int error = ab_exchange_write(exchange, head, (size_t)n);
  if (!error) {
    fx->borrowed++;
    error = ab_exchange_file(exchange, fd, 0, FILE_LEN, fx);
  }
  CHECK_INT(AB_OK, error);
  ab_exchange_keep_alive(exchange);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

static void answer_all(fixture *fx, int fd) {
  do {
    while (fx->held_count > 0) answer_with_file(fx, fx->held[--fx->held_count], fd);
    fixture_run(fx);
  } while (fx->held_count > 0);
}

static size_t waiting(const fixture *fx) {
  return fx->borrowed - fx->released;
}

static void start(fixture *fx, uint64_t one, uint64_t all) {
  fixture_prepare(fx);
  fx->limits.max_pending_files = one;
  fx->limits.max_pending_files_total = all;
  CHECK(fixture_start(fx));
  fx->hold = true;
}

/* A client with a small socket that has sent `requests` requests and reads nothing. */
static int mute_client(fixture *fx, unsigned requests, int fd) {
  ab_conn *conn;
  int client = client_of_type(fx, SOCK_STREAM, &conn), size = 4096;
  setsockopt(conn->link.watch.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  for (unsigned i = 0; i < requests; i++) {
    client_send(client, GET("/f"));
    fixture_run(fx);
    answer_all(fx, fd);
  }
  return client;
}

CHECK_CASE(one_peer_gets_no_more_before_it_reads) {
  fixture fx;
  start(&fx, 3, 0);
  int fd = letters();
  int client = mute_client(&fx, 50, fd);
  CHECK_INT(3, waiting(&fx));
  CHECK(fx.taken < 50);
  static char all[80000];
  size_t len = 0;
  for (int i = 0; i < 200; i++) {
    const char *text = client_read(client, NULL);
    size_t n = strlen(text);
    if (len + n < sizeof all) memcpy(all + len, text, n);
    len += n;
    fixture_run(&fx);
    answer_all(&fx, fd);
    CHECK(waiting(&fx) <= 3);
  }
  CHECK_INT(50, fx.taken);
  CHECK_INT(50, occurrences(all, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabcdefghij"));
  CHECK_INT(50 * (FILE_LEN + 41), len);
  CHECK_INT(0, waiting(&fx));
  close(client);
  close(fd);
  fixture_fini(&fx);
}

/* Who reads again and again stays; who has taken nothing for longest goes. */
CHECK_CASE(the_slowest_reader_goes) {
  fixture fx;
  start(&fx, 2, 5);
  int fd = letters(), clients[4];
  bool end;
  for (int i = 0; i < 2; i++) clients[i] = mute_client(&fx, 20, fd);
  CHECK_INT(4, waiting(&fx));
  client_read(clients[0], NULL);
  fixture_run(&fx);
  answer_all(&fx, fd);
  CHECK_INT(4, waiting(&fx));
  clients[2] = mute_client(&fx, 20, fd);
  CHECK_INT(4, waiting(&fx));
  client_drain(&fx, clients[1]);
  client_read(clients[1], &end);
  CHECK(end);
  client_read(clients[0], &end);
  CHECK(!end);
  /* Another one who reads is served. */
  clients[3] = client_with(&fx, GET("/f"));
  answer_all(&fx, fd);
  CHECK_INT(1, occurrences(client_read(clients[3], &end), "200 OK"));
  CHECK(!end);
  for (int i = 0; i < 4; i++) close(clients[i]);
  close(fd);
  fixture_fini(&fx);
}

/* A writer of many files waits for room, and is told when there is some. */
CHECK_CASE(a_writer_waits_for_room) {
  fixture fx;
  start(&fx, 4, 0);
  ab_conn *conn;
  int fd = letters(), client = client_of_type(&fx, SOCK_STREAM, &conn), size = 4096;
  setsockopt(conn->link.watch.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  client_send(client, GET("/f"));
  fixture_run(&fx);
  ab_engine_lock(fx.engine);
  bool wait = false;
  for (int i = 0; i < 100 && !wait; i++) {
    fx.borrowed++;
    CHECK_INT(AB_OK, ab_exchange_file(fx.held[0], fd, 0, FILE_LEN, &fx));
    wait = ab_exchange_want_room(fx.held[0]);
  }
  ab_engine_unlock(fx.engine);
  CHECK(wait);
  CHECK_INT(4, waiting(&fx));
  client_drain(&fx, client);
  CHECK_INT(AB_EVENT_DRAINED, fx.events);
  answer_held(&fx, 0, "x");
  close(client);
  close(fd);
  fixture_fini(&fx);
}

CHECK_MAIN()
