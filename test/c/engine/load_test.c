/* Files that are not in memory: threads read them, and nobody else waits. The disk is one of the
 * test's own, which answers when it is told to. */
#include <poll.h>

#include "engine/disk.h"
#include "engine/fixture.h"
#include "io/storage.h"

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define HEAD_ROOM     128
#define PIECES_LEN    (3 * AB_STORAGE_PIECE + 1000)
#define MOST_READS    4
#define RECEIVED_ROOM (2 * PIECES_LEN)

/* --- the fixture --- */

static void start(fixture *fx, bool stuck) {
  disk_begin(stuck);
  fixture_prepare(fx);
  CHECK(fixture_start(fx));
  fx->engine->storage = &disk_calls;
  fx->hold = true;
}

static int file_of(size_t len) {
  FILE *file = tmpfile();
  if (!file) abort();
  for (size_t i = 0; i < len; i++) fputc('a' + (int)(i % 23), file);
  fflush(file);
  int fd = dup(fileno(file));
  fclose(file);
  return fd;
}

static void answer_with_file(fixture *fx, ab_exchange *exchange, int fd, size_t len) {
  char head[HEAD_ROOM];
  int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", len);
  ab_engine_lock(fx->engine);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, head, (size_t)n));
  fx->borrowed++;
  CHECK_INT(AB_OK, ab_exchange_file(exchange, fd, 0, len, fx));
  ab_exchange_keep_alive(exchange);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

static int client_of_file(fixture *fx, int fd, size_t len) {
  int client = client_with(fx, GET("/f"));
  CHECK_INT(1, fx->held_count);
  answer_with_file(fx, fx->held[--fx->held_count], fd, len);
  fixture_run(fx);
  return client;
}

static char received[RECEIVED_ROOM];

/* Reads until `len` bytes have come; returns how many have. */
static size_t receive(fixture *fx, int client, size_t len) {
  size_t got = 0;
  while (got < len) {
    ssize_t n = recv(client, received + got, len - got, 0);
    if (n == 0) break;
    if (n > 0) {
      got += (size_t)n;
      fixture_run(fx);
    } else if (fx->engine->readers_pool && ab_blocking_pending(fx->engine->readers_pool) > 0) {
      await_wake_up(fx);
    } else if (!fixture_turn(fx) && recv(client, received, 1, MSG_PEEK) < 0) {
      break; /* nothing is to be expected any more */
    }
  }
  return got;
}

static void check_response(fixture *fx, int client, size_t len) {
  char head[HEAD_ROOM];
  size_t n =
      (size_t)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", len);
  CHECK_INT(n + len, receive(fx, client, n + len));
  CHECK(memcmp(received, head, n) == 0);
  size_t wrong = 0;
  for (size_t i = 0; i < len; i++) wrong += received[n + i] != (char)('a' + (int)(i % 23));
  CHECK_INT(0, wrong);
}

static void check_others_are_served(fixture *fx) {
  int client = client_with(fx, GET("/other"));
  CHECK_INT(1, fx->held_count);
  answer_held(fx, 0, "other");
  fixture_run(fx);
  CHECK(strstr(client_read(client, NULL), "other"));
  close(client);
  fixture_run(fx);
}

static void stop(fixture *fx, int fd) {
  close(fd);
  fixture_fini(fx);
  disk_end();
}

/* --- cases --- */

CHECK_CASE(a_warm_file_needs_no_thread) {
  fixture fx;
  start(&fx, false);
  disk.warm = UINT64_MAX;
  int fd = file_of(5000), client = client_of_file(&fx, fd, 5000);
  check_response(&fx, client, 5000);
  CHECK(!fx.engine->readers_pool);
  CHECK_INT(0, disk.reads);
  close(client);
  stop(&fx, fd);
}

CHECK_CASE(a_cold_file_is_read_piece_by_piece) {
  fixture fx;
  start(&fx, false);
  int fd = file_of(PIECES_LEN), client = client_of_file(&fx, fd, PIECES_LEN);
  check_response(&fx, client, PIECES_LEN);
  CHECK_INT(4, disk.reads);
  CHECK_INT(PIECES_LEN, disk.warm);
  close(client);
  stop(&fx, fd);
}

/* The disk says that nothing is in memory, whatever was read: it is sent all the same. */
CHECK_CASE(a_disk_that_forgets_at_once) {
  static const ab_storage_calls forgetful = {disk_is_warm, ab_storage_warm};
  fixture fx;
  start(&fx, false);
  fx.engine->storage = &forgetful;
  int fd = file_of(PIECES_LEN), client = client_of_file(&fx, fd, PIECES_LEN);
  check_response(&fx, client, PIECES_LEN);
  close(client);
  stop(&fx, fd);
}

CHECK_CASE(others_are_served_and_no_deadline_passes) {
  fixture fx;
  start(&fx, true);
  int fd = file_of(3000), client = client_of_file(&fx, fd, 3000);
  disk_await_reads(1);
  check_others_are_served(&fx);
  fixture_pass(&fx, 100000);
  check_others_are_served(&fx);
  CHECK_INT(1, stats_of(&fx).connections);
  disk_answers();
  check_response(&fx, client, 3000);
  /* From now on it is idle, as any other. */
  fixture_pass(&fx, (unsigned)fx.limits.persistent_timeout + 1);
  CHECK_INT(0, stats_of(&fx).connections);
  close(client);
  stop(&fx, fd);
}

/* The next response waits behind the file, and comes after it. */
CHECK_CASE(pipelined_responses_keep_their_order) {
  fixture fx;
  start(&fx, true);
  int fd = file_of(3000), client = client_of_file(&fx, fd, 3000);
  disk_await_reads(1);
  client_send(client, GET("/next"));
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  answer_held(&fx, 0, "the next one");
  fixture_run(&fx);
  disk_answers();
  check_response(&fx, client, 3000);
  fixture_run(&fx);
  CHECK(strstr(client_read(client, NULL), "the next one"));
  CHECK_INT(1, disk.reads);
  close(client);
  stop(&fx, fd);
}

CHECK_CASE(more_files_than_threads) {
  enum { CLIENTS = 20 };
  fixture fx;
  start(&fx, true);
  int fd = file_of(3000), clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) clients[i] = client_of_file(&fx, fd, 3000);
  disk_await_reads(MOST_READS);
  check_others_are_served(&fx);
  disk_answers();
  for (int i = 0; i < CLIENTS; i++) {
    check_response(&fx, clients[i], 3000);
    close(clients[i]);
  }
  CHECK_INT(MOST_READS, disk.most_reading);
  stop(&fx, fd);
}

/* Those whose clients have gone while a thread reads for them, or before one did. */
CHECK_CASE(clients_that_leave) {
  enum { CLIENTS = 10 };
  fixture fx;
  start(&fx, true);
  int fd = file_of(3000), clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) clients[i] = client_of_file(&fx, fd, 3000);
  disk_await_reads(MOST_READS);
  for (int i = 0; i < CLIENTS; i++) close(clients[i]);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(CLIENTS, fx.released);
  int client = client_of_file(&fx, fd, 3000);
  disk_answers();
  check_response(&fx, client, 3000);
  close(client);
  stop(&fx, fd);
}

/* Nobody waits for the threads, which still read. */
CHECK_CASE(the_engine_ends_meanwhile) {
  fixture fx;
  start(&fx, true);
  int fd = file_of(3000), client = client_of_file(&fx, fd, 3000);
  disk_await_reads(1);
  close(client);
  stop(&fx, fd);
}

CHECK_CASE(a_drain_waits_for_the_file) {
  fixture fx;
  start(&fx, true);
  int fd = file_of(3000), client = client_of_file(&fx, fd, 3000);
  disk_await_reads(1);
  ab_engine_drain(fx.engine, fx.now);
  fixture_pass(&fx, 1000);
  CHECK_INT(1, stats_of(&fx).connections);
  disk_answers();
  check_response(&fx, client, 3000);
  fixture_pass(&fx, (unsigned)fx.limits.linger_timeout + 1);
  CHECK_INT(0, stats_of(&fx).connections);
  close(client);
  stop(&fx, fd);
}

/* Descriptors are for who can use them. */
CHECK_CASE(the_oldest_goes_when_there_are_too_many) {
  fixture fx;
  start(&fx, true);
  fx.engine->default_service.limits.max_pending_files_total = 6;
  int fd = file_of(3000), clients[8];
  for (int i = 0; i < 8; i++) clients[i] = client_of_file(&fx, fd, 3000);
  CHECK_INT(6, stats_of(&fx).connections);
  disk_answers();
  for (int i = 2; i < 8; i++) check_response(&fx, clients[i], 3000);
  for (int i = 0; i < 8; i++) close(clients[i]);
  stop(&fx, fd);
}

/* Without memory for the wait the file is sent as it is. */
CHECK_CASE(memory_runs_out) {
  fixture fx;
  start(&fx, false);
  int fd = file_of(3000), client = client_open(&fx);
  client_send(client, GET("/f"));
  fixture_run(&fx);
  ab_exchange *exchange = fx.held[--fx.held_count];
  ab_engine_lock(fx.engine);
  fx.borrowed++;
  CHECK_INT(AB_OK, ab_exchange_file(exchange, fd, 0, 3000, &fx));
  fx.mem.fail_at = fx.mem.calls + 1;
  ab_exchange_flush(exchange);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  CHECK_INT(0, disk.reads);
  CHECK_INT(3000, receive(&fx, client, 3000));
  close(client);
  stop(&fx, fd);
}

CHECK_MAIN()
