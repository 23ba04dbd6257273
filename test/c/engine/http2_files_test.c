/* Files over HTTP/2: they pass from a stream's output to its connection's by reference, so that a
 * file outlives its stream there, and what a frame's head has promised follows. */
#include "engine/disk.h"
#include "engine/http2_client.h"
#include "io/storage.h"

#define GET_1    "GET /one HTTP/1.1\r\nHost: x\r\n\r\n"
#define MEGABYTE (1 << 20)

enum { FILE_LEN = 200000, FRAME = 16384 };

/* Bytes of one kind, which the client checks. */
static int file_of(size_t len) {
  static char content[FILE_LEN];
  memset(content, 'f', sizeof content);
  int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(len, write(fd, content, len));
  return fd;
}

static void answer_exchange(fixture *fx, ab_exchange *exchange, int fd, size_t len) {
  ab_engine_lock(fx->engine);
  int error = give_head(exchange, of_length(len), "", NULL);
  if (!error) error = ab_exchange_file(exchange, fd, 0, len, fx);
  if (!error) fx->borrowed++;
  ab_exchange_finish(exchange, error ? AB_FINISH_BROKEN : AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

static void answer_file(fixture *fx, int fd, size_t len) {
  answer_exchange(fx, take_held(fx, 0), fd, len);
}

/* Whatever the server has to send may come, but for what the socket holds. */
static h2_client *wide_client(fixture *fx) {
  const nghttp2_settings_entry wide[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, MEGABYTE}};
  h2_client *client = client_new(fx, wide, 1, true);
  CHECK_INT(0, nghttp2_session_set_local_window_size(client->peer.session, NGHTTP2_FLAG_NONE, 0,
                                                     MEGABYTE));
  return client;
}

/* Where the first request came from that the application has. */
static ab_conn *connection(const fixture *fx) {
  return fx->held[0]->conn->stream->session->conn;
}

/* The socket takes little. */
static void narrow(const ab_conn *conn) {
  int size = 4096;
  setsockopt(conn->link.watch.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static size_t pool_files(const fixture *fx) {
  return ab_outbox_pool_files(fx->engine->outboxes);
}

/* A request, whose file of `len` bytes the socket does not take: of what was passed on, some waits.
 * *parent gets the connection. */
static int32_t begin(fixture *fx, h2_client *client, ab_conn **parent, int fd, size_t len) {
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  *parent = connection(fx);
  narrow(*parent);
  client->deaf = true;
  answer_file(fx, fd, len);
  fixture_run(fx);
  CHECK((*parent)->blocked);
  CHECK(ab_outbox_files((*parent)->out) > 0);
  CHECK_INT(1, pool_files(fx));
  return id;
}

static void check_file(const h2_client *client, int32_t id, uint64_t len) {
  CHECK(strstr(HEADS_OF(id), ":status=200;"));
  CHECK_INT(len, OF(id)->body_len);
  if (len > 0) CHECK_INT('f', OF(id)->first);
  CHECK(OF(id)->ended);
}

static void check_others_are_served(fixture *fx, h2_client *client) {
  int32_t other = peer_get(&client->peer, "/b");
  talk(client);
  CHECK_INT(1, fx->held_count);
  reply(fx, 0, "xx");
  talk(client);
  CHECK(OF(other)->ended);
  CHECK_INT(2, OF(other)->body_len);
}

/* --- whole files --- */

CHECK_CASE(files_of_all_lengths) {
  static const size_t lens[] = {1,     4096,  8191,      8192,   16383,   16384,
                                16385, 65535, 4 * FRAME, 100000, FILE_LEN};
  for (size_t i = 0; i < AB_ARRAY_LEN(lens); i++) {
    fixture fx;
    h2_init(&fx);
    h2_client *client = wide_client(&fx);
    int fd = file_of(lens[i]);
    for (int round = 0; round < 2; round++) {
      int32_t id = peer_get(&client->peer, "/a");
      talk(client);
      answer_file(&fx, fd, lens[i]);
      talk(client);
      check_file(client, id, lens[i]);
      CHECK_INT(fx.borrowed, fx.released);
      CHECK_INT(0, pool_files(&fx));
    }
    close(fd);
    end(&fx, client);
  }
}

/* Frames of any size, down to a byte. */
CHECK_CASE(windows_of_all_sizes) {
  static const uint32_t windows[] = {1, 1000, 8191, 8192, 10000, 40000};
  for (size_t i = 0; i < AB_ARRAY_LEN(windows); i++) {
    fixture fx;
    h2_init(&fx);
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, windows[i]};
    h2_client *client = client_new(&fx, &entry, 1, true);
    size_t len = windows[i] == 1 ? 50 : 100000;
    int fd = file_of(len);
    int32_t id = peer_get(&client->peer, "/a");
    talk(client);
    answer_file(&fx, fd, len);
    talk(client);
    check_file(client, id, len);
    close(fd);
    end(&fx, client);
  }
}

/* RFC 9218: it is useful in parts. */
static int32_t get_in_turns(h2_client *client) {
  return peer_request(&client->peer, PAIRS(PAIRS_OF("GET", "/a"), "priority", "i"), false);
}

/* The first has begun before the others. */
CHECK_CASE(files_take_turns) {
  enum { STREAMS = 5 };
  fixture fx;
  h2_init(&fx);
  h2_client *client = wide_client(&fx);
  int fd = file_of(FILE_LEN);
  int32_t ids[STREAMS];
  for (int i = 0; i < STREAMS; i++) ids[i] = get_in_turns(client);
  talk(client);
  narrow(connection(&fx));
  while (fx.held_count > 0) answer_file(&fx, fd, FILE_LEN);
  uint64_t second = 0;
  while (second < FILE_LEN / 2) {
    client_says(client);
    fixture_run(&fx);
    client_hears(client);
    second = OF(ids[1])->body_len;
    CHECK(OF(ids[0])->body_len <= second + AB_SESSION_OUTPUT + 4 * FRAME);
    for (int i = 2; i < STREAMS; i++) {
      uint64_t got = OF(ids[i])->body_len;
      CHECK(got + 2 * FRAME >= second && got <= second + 2 * FRAME);
    }
  }
  talk(client);
  for (int i = 0; i < STREAMS; i++) check_file(client, ids[i], FILE_LEN);
  close(fd);
  end(&fx, client);
}

/* The socket takes a part of what stands there, again and again. */
CHECK_CASE(a_slow_reader_gets_all) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  CHECK_INT(0, fx.released);
  client->deaf = false;
  talk(client);
  check_file(client, id, FILE_LEN);
  CHECK_INT(1, fx.released);
  CHECK_INT(0, pool_files(&fx));
  close(fd);
  end(&fx, client);
}

/* --- what becomes of the stream --- */

/* The rest of its file goes at once, what was promised comes, and the descriptor is given back. */
CHECK_CASE(a_stream_is_reset_amid) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  nghttp2_submit_rst_stream(client->peer.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  client_says(client);
  fixture_run(&fx);
  CHECK(ab_outbox_files(conn->out) > 0);
  CHECK_INT(0, fx.released);
  CHECK_INT(1, pool_files(&fx));
  client->deaf = false;
  talk(client);
  CHECK_INT(1, fx.released);
  CHECK_INT(0, pool_files(&fx));
  CHECK(!has_ended(client));
  check_others_are_served(&fx, client);
  close(fd);
  end(&fx, client);
}

CHECK_CASE(a_client_leaves_amid) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  begin(&fx, client, &conn, fd, FILE_LEN);
  client_leave(client);
  CHECK_INT(1, fx.released);
  CHECK_INT(0, pool_files(&fx));
  close(fd);
  fixture_fini(&fx);
}

/* --- what becomes of the file --- */

/* A frame's head is out, and its bytes are gone. */
CHECK_CASE(a_file_that_shrinks_amid) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  CHECK_INT(0, ftruncate(fd, 0));
  client->deaf = false;
  talk(client);
  CHECK(has_ended(client));
  CHECK(!OF(id)->ended);
  CHECK(OF(id)->body_len < FILE_LEN);
  CHECK_INT(1, fx.released);
  CHECK_INT(0, stats_of(&fx).connections);
  close(fd);
  end(&fx, client);
}

/* --- descriptors --- */

CHECK_CASE(parts_of_one_file_are_one_descriptor) {
  fixture fx;
  h2_init(&fx);
  fx.engine->default_service.limits.max_pending_files_total = 1;
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  CHECK(ab_outbox_files(conn->out) > 1);
  h2_client *other = wide_client(&fx);
  talk(other);
  CHECK_INT(2, stats_of(&fx).connections);
  client->deaf = false;
  talk(client);
  check_file(client, id, FILE_LEN);
  client_leave(other);
  close(fd);
  end(&fx, client);
}

CHECK_CASE(the_slowest_reader_goes_when_there_are_too_many) {
  enum { CLIENTS = 6, MOST = 4 };
  fixture fx;
  h2_init(&fx);
  fx.engine->default_service.limits.max_pending_files_total = MOST;
  h2_client *clients[CLIENTS];
  int32_t ids[CLIENTS];
  int fd = file_of(FILE_LEN);
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = wide_client(&fx);
    ids[i] = peer_get(&clients[i]->peer, "/a");
    talk(clients[i]);
    narrow(connection(&fx));
    clients[i]->deaf = true;
    answer_file(&fx, fd, FILE_LEN);
    fixture_run(&fx);
  }
  CHECK_INT(MOST, stats_of(&fx).connections);
  CHECK_INT(MOST, pool_files(&fx));
  CHECK_INT(CLIENTS - MOST, fx.released);
  for (int i = 0; i < CLIENTS; i++) {
    h2_client *client = clients[i];
    client->deaf = false;
    talk(client);
    if (i < CLIENTS - MOST) {
      CHECK(!OF(ids[i])->ended);
    } else {
      check_file(client, ids[i], FILE_LEN);
    }
  }
  for (int i = 0; i < CLIENTS; i++) client_leave(clients[i]);
  close(fd);
  fixture_fini(&fx);
}

/* A client whose socket is full is still heard, however many files wait for it. */
CHECK_CASE(what_a_client_says_while_files_wait) {
  fixture fx;
  h2_init(&fx);
  fx.engine->default_service.limits.max_pending_files = 1;
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  CHECK(ab_outbox_files(conn->out) > 1);
  peer_get(&client->peer, "/b");
  client_says(client);
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  client->deaf = false;
  reply(&fx, 0, "xx");
  talk(client);
  check_file(client, id, FILE_LEN);
  close(fd);
  end(&fx, client);
}

/* --- cold files --- */

static h2_client *start_on_disk(fixture *fx, bool stuck) {
  disk_begin(stuck);
  h2_init(fx);
  fx->engine->storage = &disk_calls;
  return wide_client(fx);
}

static void hear_all(fixture *fx, h2_client *client, int32_t id) {
  for (talk(client); !OF(id)->ended && !has_ended(client); talk(client)) await_wake_up(fx);
}

static void stop_disk(fixture *fx, h2_client *client, int fd) {
  close(fd);
  end(fx, client);
  disk_end();
}

/* Only its stream waits. */
CHECK_CASE(a_cold_file) {
  fixture fx;
  h2_client *client = start_on_disk(&fx, true);
  int fd = file_of(FILE_LEN);
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  answer_file(&fx, fd, FILE_LEN);
  talk(client);
  disk_await_reads(1);
  CHECK(OF(id)->heads_len > 0);
  CHECK_INT(0, OF(id)->body_len);
  check_others_are_served(&fx, client);
  fixture_pass(&fx, 100000);
  check_others_are_served(&fx, client);
  disk_answers();
  hear_all(&fx, client, id);
  check_file(client, id, FILE_LEN);
  CHECK_INT(1, disk.reads);
  stop_disk(&fx, client, fd);
}

/* What the application does meanwhile does not send what is not there. */
CHECK_CASE(a_cold_file_is_flushed_again) {
  fixture fx;
  h2_client *client = start_on_disk(&fx, true);
  int fd = file_of(FILE_LEN);
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  ab_exchange *exchange = take_held(&fx, 0);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, give_head(exchange, of_length(FILE_LEN), "", NULL));
  CHECK_INT(AB_OK, ab_exchange_file(exchange, fd, 0, FILE_LEN, &fx));
  fx.borrowed++;
  ab_exchange_flush(exchange);
  ab_engine_unlock(fx.engine);
  talk(client);
  disk_await_reads(1);
  ab_engine_lock(fx.engine);
  ab_exchange_flush(exchange);
  ab_engine_unlock(fx.engine);
  talk(client);
  ab_engine_lock(fx.engine);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  talk(client);
  CHECK_INT(0, OF(id)->body_len);
  disk_answers();
  hear_all(&fx, client, id);
  check_file(client, id, FILE_LEN);
  CHECK_INT(1, disk.reads);
  stop_disk(&fx, client, fd);
}

/* Two are there at once: what the first one sends does not block the other, which has not been
 * asked yet. */
CHECK_CASE(cold_files_that_come_together) {
  fixture fx;
  h2_client *client = start_on_disk(&fx, true);
  int fd = file_of(FILE_LEN);
  int32_t ids[2];
  for (unsigned i = 0; i < AB_ARRAY_LEN(ids); i++) {
    ids[i] = peer_get(&client->peer, "/a");
    talk(client);
    answer_file(&fx, fd, FILE_LEN);
  }
  talk(client);
  disk_await_reads(AB_ARRAY_LEN(ids));
  disk_answers();
  while (disk_reads_on()) poll(NULL, 0, 1);
  for (unsigned i = 0; i < AB_ARRAY_LEN(ids); i++) {
    hear_all(&fx, client, ids[i]);
    check_file(client, ids[i], FILE_LEN);
  }
  stop_disk(&fx, client, fd);
}

/* It was in memory when its frames were made, and is not when the socket takes them: all that is on
 * the connection waits, no deadline of it passes, and nobody else waits. */
CHECK_CASE(a_file_that_gets_cold_amid) {
  fixture fx;
  h2_client *client = start_on_disk(&fx, true);
  disk.warm = UINT64_MAX;
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  CHECK_INT(0, disk.reads);
  disk.warm = 0;
  client->deaf = false;
  talk(client);
  disk_await_reads(1);
  CHECK(ab__load_waits(conn));
  CHECK(!OF(id)->ended);
  fixture_pass(&fx, 100000);
  CHECK_INT(1, stats_of(&fx).connections);
  h2_client *other = wide_client(&fx);
  talk(other);
  check_others_are_served(&fx, other);
  disk_answers();
  hear_all(&fx, client, id);
  check_file(client, id, FILE_LEN);
  client_leave(other);
  stop_disk(&fx, client, fd);
}

/* A stream whose window was used up finds its file cold when there is room again: no deadline of
 * its own passes, either, and it goes on by itself. */
CHECK_CASE(a_file_that_gets_cold_between) {
  fixture fx;
  client_leave(start_on_disk(&fx, true));
  disk.warm = UINT64_MAX;
  h2_client *client = client_new(&fx, NULL, 0, false);
  int fd = file_of(FILE_LEN);
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  answer_file(&fx, fd, FILE_LEN);
  talk(client);
  CHECK_INT(65535, OF(id)->body_len);
  disk.warm = 0;
  for (int32_t one = 0; one <= id; one += id) {
    nghttp2_submit_window_update(client->peer.session, NGHTTP2_FLAG_NONE, one, FILE_LEN);
  }
  talk(client);
  disk_await_reads(1);
  CHECK_INT(65535, OF(id)->body_len);
  check_others_are_served(&fx, client);
  fixture_pass(&fx, 100000);
  disk_answers();
  hear_all(&fx, client, id);
  check_file(client, id, FILE_LEN);
  stop_disk(&fx, client, fd);
}

/* ... and its client leaves while a thread reads for it. */
CHECK_CASE(a_client_of_a_cold_file_leaves) {
  fixture fx;
  h2_client *client = start_on_disk(&fx, true);
  disk.warm = UINT64_MAX;
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  begin(&fx, client, &conn, fd, FILE_LEN);
  disk.warm = 0;
  client->deaf = false;
  talk(client);
  disk_await_reads(1);
  stop_disk(&fx, client, fd);
}

/* Nothing is in memory, whatever was read: it is sent all the same. */
CHECK_CASE(a_disk_that_forgets_at_once) {
  static const ab_storage_calls forgetful = {disk_is_warm, ab_storage_warm};
  fixture fx;
  h2_client *client = start_on_disk(&fx, false);
  fx.engine->storage = &forgetful;
  int fd = file_of(FILE_LEN);
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  narrow(connection(&fx));
  answer_file(&fx, fd, FILE_LEN);
  hear_all(&fx, client, id);
  check_file(client, id, FILE_LEN);
  stop_disk(&fx, client, fd);
}

/* --- memory --- */

/* Each allocation of the engine's fails once. A client gets its file as a whole, or learns that it
 * does not. */
CHECK_CASE(memory_that_fails) {
  int fd = file_of(FILE_LEN);
  for (size_t at = 1;; at++) {
    fixture fx;
    h2_init(&fx);
    h2_client *client = wide_client(&fx);
    int32_t ids[] = {peer_get(&client->peer, "/a"), peer_get(&client->peer, "/b")};
    talk(client);
    narrow(connection(&fx));
    size_t before = fx.mem.calls;
    fx.mem.fail_at = before + at;
    while (fx.held_count > 0) answer_file(&fx, fd, FILE_LEN);
    talk(client);
    bool failed = fx.mem.calls >= before + at, over = has_ended(client);
    for (int i = 0; i < 2; i++) {
      CHECK(over || OF(ids[i])->closed);
      if (OF(ids[i])->ended || !failed) check_file(client, ids[i], FILE_LEN);
    }
    CHECK_INT(0, pool_files(&fx));
    end(&fx, client);
    if (!failed) {
      CHECK(at > 5);
      break;
    }
  }
  close(fd);
}

/* Another protocol's connections are not concerned. */
CHECK_CASE(http1_beside) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = wide_client(&fx);
  ab_conn *conn;
  int fd = file_of(FILE_LEN);
  int32_t id = begin(&fx, client, &conn, fd, FILE_LEN);
  int plain = client_with(&fx, GET_1);
  CHECK_INT(1, fx.held_count);
  answer_held(&fx, 0, "plain");
  fixture_run(&fx);
  CHECK(strstr(client_read(plain, NULL), "plain"));
  close(plain);
  client->deaf = false;
  talk(client);
  check_file(client, id, FILE_LEN);
  close(fd);
  end(&fx, client);
}

CHECK_MAIN()
