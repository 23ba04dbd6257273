/* Connections over TLS that the application has taken over: what it says and what its peer says go
 * to and fro, and neither is held up, cut off or kept in memory without bounds. */
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "engine/conn.h"
#include "engine/tls_client.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a.test\r\n\r\n"

typedef struct tunnel {
  fixture fx;
  tls_client client;
  int app;    /* the application's end */
  int socket; /* the engine's, to the peer */
} tunnel;

/* `ahead` comes behind the head, and is in *text afterwards. */
static void begin_with(tunnel *tunnel, const char *ahead, char *text) {
  fixture *fx = &tunnel->fx;
  fixture_init(fx);
  fx->hold = true;
  uint16_t port = tls_listen_on(fx, NULL);
  tunnel->client = tls_connect(fx, port);
  char request[256];
  snprintf(request, sizeof request, "%s%s", GET("/a"), ahead);
  tls_send(&tunnel->client, request);
  CHECK_INT(1, fx->held_count);
  tunnel->socket = fx->held[0]->conn->link.watch.fd;
  ab_handover ends;
  const char *ptr;
  size_t len;
  ab_engine_lock(fx->engine);
  CHECK_INT(AB_OK, ab_exchange_prepare_handover(fx->held[0], &ends));
  CHECK_INT(AB_OK, ab_exchange_detach(fx->held[0], &ends, &ptr, &len));
  if (text) memcpy(text, ptr, len);
  CHECK_INT(strlen(ahead), len);
  CHECK(ab_exchange_gone(fx->held[0]) && ab_exchange_is_secure(fx->held[0]));
  CHECK(!ab_exchange_tls(fx->held[0]));
  ab_exchange_finish(fx->held[0], AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
  fx->held_count = 0;
  tunnel->app = ends.fd;
  CHECK_INT(0, stats_of(fx).connections);
  CHECK_INT(1, stats_of(fx).taken_over);
  CHECK_INT(1, stats_of(fx).tls_connections);
  fixture_run(fx);
}

static void begin(tunnel *tunnel) {
  begin_with(tunnel, "", NULL);
}

static void end(tunnel *tunnel) {
  if (tunnel->app >= 0) close(tunnel->app);
  fixture_run(&tunnel->fx);
  tls_free(&tunnel->client);
  fixture_pass(&tunnel->fx, 3);
  CHECK_INT(0, stats_of(&tunnel->fx).connections);
  CHECK_INT(0, stats_of(&tunnel->fx).taken_over);
  CHECK_INT(0, stats_of(&tunnel->fx).tls_connections);
  fixture_fini(&tunnel->fx);
}

static void say(tunnel *tunnel, const char *text) {
  CHECK_INT(strlen(text), send(tunnel->app, text, strlen(text), MSG_NOSIGNAL));
  fixture_run(&tunnel->fx);
}

static void close_app(tunnel *tunnel) {
  close(tunnel->app);
  tunnel->app = -1;
  fixture_run(&tunnel->fx);
}

CHECK_CASE(bytes_go_to_and_fro) {
  tunnel tunnel;
  char ahead[16] = "";
  begin_with(&tunnel, "ahead", ahead);
  CHECK(strcmp(ahead, "ahead") == 0);
  for (int i = 0; i < 5; i++) {
    say(&tunnel, "from the app");
    CHECK(strcmp(tls_read(&tunnel.client, NULL), "from the app") == 0);
    tls_send(&tunnel.client, "from the peer");
    CHECK(strcmp(client_read(tunnel.app, NULL), "from the peer") == 0);
  }
  /* No deadline of the server's counts. */
  fixture_pass(&tunnel.fx, 100000);
  say(&tunnel, "later");
  CHECK(strcmp(tls_read(&tunnel.client, NULL), "later") == 0);
  CHECK_INT(0, stats_of(&tunnel.fx).timeouts);
  CHECK_INT(0, tunnel.fx.events);
  end(&tunnel);
}

static char plenty[3 << 20], got[sizeof plenty];

static void fill(void) {
  for (size_t i = 0; i < sizeof plenty; i++) plenty[i] = (char)('a' + i % 23 + i / 65536 % 3);
  memset(got, 0, sizeof got);
}

/* The side that sends has to wait for the one that reads. */
CHECK_CASE(much_to_the_peer) {
  tunnel tunnel;
  begin(&tunnel);
  fill();
  size_t sent = 0, read = 0;
  for (unsigned i = 0; i < 300; i++) {
    ssize_t n = send(tunnel.app, plenty + sent, sizeof plenty - sent, MSG_NOSIGNAL);
    if (n > 0) sent += (size_t)n;
    fixture_run(&tunnel.fx);
  }
  CHECK(sent < sizeof plenty); /* the kernel's buffers are full, and ours are small */
  size_t live = tunnel.fx.mem.live;
  fixture_pass(&tunnel.fx, 100); /* a slow reader is the application's to judge */
  CHECK_INT(live, tunnel.fx.mem.live);
  for (unsigned i = 0; i < 100000 && read < sizeof plenty; i++) {
    ssize_t n = sent < sizeof plenty
                    ? send(tunnel.app, plenty + sent, sizeof plenty - sent, MSG_NOSIGNAL)
                    : 0;
    if (n > 0) sent += (size_t)n;
    fixture_run(&tunnel.fx);
    ERR_clear_error();
    int m = SSL_read(tunnel.client.ssl, got + read, (int)(sizeof got - read));
    if (m > 0) read += (size_t)m;
  }
  CHECK_INT(sizeof plenty, read);
  CHECK(memcmp(got, plenty, sizeof plenty) == 0);
  end(&tunnel);
}

static void set_send_buffer(tunnel *tunnel, int bytes) {
  setsockopt(tunnel->socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static size_t read_some(tunnel *tunnel, size_t at) {
  ERR_clear_error();
  int n = SSL_read(tunnel->client.ssl, got + at, (int)(sizeof got - at));
  return n > 0 ? (size_t)n : 0;
}

/* The socket takes a part, and the rest before the step ends: no event tells to go on. */
CHECK_CASE(a_socket_that_is_full_for_a_moment) {
  enum { COUNT = 60000 };
  tunnel tunnel;
  begin(&tunnel);
  fill();
  set_send_buffer(&tunnel, 1);
  CHECK_INT(COUNT, send(tunnel.app, plenty, COUNT, MSG_NOSIGNAL));
  size_t read = 0;
  ab_engine *engine = tunnel.fx.engine;
  fixture_hear(&tunnel.fx);
  ab_engine_begin_turn(engine, tunnel.fx.now);
  CHECK(!ab_engine_step(engine));
  read += read_some(&tunnel, read);
  set_send_buffer(&tunnel, 1 << 20);
  ab_engine_end_step(engine);
  for (unsigned i = 0; i < 100 && read < COUNT; i++) {
    read += read_some(&tunnel, read);
    fixture_run(&tunnel.fx);
  }
  CHECK_INT(COUNT, read);
  CHECK(memcmp(got, plenty, COUNT) == 0);
  end(&tunnel);
}

CHECK_CASE(much_to_the_application) {
  tunnel tunnel;
  begin(&tunnel);
  fill();
  size_t sent = 0, read = 0, stuck = 0;
  for (unsigned i = 0; i < 100000 && read < sizeof plenty; i++) {
    ERR_clear_error();
    size_t most = sizeof plenty - sent < 16000 ? sizeof plenty - sent : 16000;
    int n = most > 0 ? SSL_write(tunnel.client.ssl, plenty + sent, (int)most) : 0;
    if (n > 0) sent += (size_t)n;
    fixture_run(&tunnel.fx);
    /* It does not read before nothing more can be sent. */
    if (n > 0 && stuck < 10) continue;
    if (stuck++ < 10) continue;
    ssize_t m = recv(tunnel.app, got + read, sizeof got - read, 0);
    if (m > 0) read += (size_t)m;
    fixture_run(&tunnel.fx);
  }
  CHECK_INT(sizeof plenty, read);
  CHECK(memcmp(got, plenty, sizeof plenty) == 0);
  end(&tunnel);
}

/* What the application wrote before it closed arrives, and then the end. */
CHECK_CASE(an_application_that_closes) {
  tunnel tunnel;
  begin(&tunnel);
  CHECK_INT(5, send(tunnel.app, "bytes", 5, 0));
  close_app(&tunnel);
  int notified;
  CHECK(strcmp(tls_read(&tunnel.client, &notified), "bytes") == 0);
  CHECK_INT(1, notified);
  fixture_pass(&tunnel.fx, 3);
  CHECK_INT(0, stats_of(&tunnel.fx).taken_over);
  end(&tunnel);
}

/* ... also to a peer that is slow then, in the time that others have. */
CHECK_CASE(an_application_that_closes_with_much_to_send) {
  for (int reads = 0; reads < 2; reads++) {
    tunnel tunnel;
    begin(&tunnel);
    fill();
    size_t sent = 0, read = 0;
    for (unsigned i = 0; i < 300; i++) {
      ssize_t n = send(tunnel.app, plenty + sent, sizeof plenty - sent, MSG_NOSIGNAL);
      if (n > 0) sent += (size_t)n;
      fixture_run(&tunnel.fx);
    }
    close_app(&tunnel);
    if (reads) {
      for (unsigned i = 0; i < 10000 && read < sent; i++) {
        int m = SSL_read(tunnel.client.ssl, got + read, (int)(sizeof got - read));
        if (m > 0) read += (size_t)m;
        fixture_run(&tunnel.fx);
      }
      CHECK_INT(sent, read);
      CHECK(memcmp(got, plenty, sent) == 0);
      int notified;
      tls_read(&tunnel.client, &notified);
      CHECK_INT(1, notified);
    } else {
      CHECK_INT(1, stats_of(&tunnel.fx).tls_connections);
      fixture_pass(&tunnel.fx, 31);
      CHECK_INT(0, stats_of(&tunnel.fx).tls_connections);
      CHECK_INT(1, stats_of(&tunnel.fx).timeouts);
    }
    end(&tunnel);
  }
}

CHECK_CASE(an_application_that_ends_its_side) {
  tunnel tunnel;
  begin(&tunnel);
  say(&tunnel, "last");
  shutdown(tunnel.app, SHUT_WR);
  fixture_run(&tunnel.fx);
  int notified;
  CHECK(strcmp(tls_read(&tunnel.client, &notified), "last") == 0);
  CHECK_INT(1, notified);
  tls_send(&tunnel.client, "more");
  CHECK(strcmp(client_read(tunnel.app, NULL), "more") == 0);
  SSL_shutdown(tunnel.client.ssl);
  fixture_run(&tunnel.fx);
  bool ended;
  CHECK(!*client_read(tunnel.app, &ended));
  CHECK(ended);
  end(&tunnel);
}

/* ... also if the socket takes the end only when the peer has read. */
CHECK_CASE(an_application_that_ends_its_side_at_a_full_socket) {
  tunnel tunnel;
  begin(&tunnel);
  fill();
  size_t sent = 0, read = 0;
  for (int queued = 0; queued < 100000 && sent < sizeof plenty;) {
    CHECK_INT(10000, send(tunnel.app, plenty + sent, 10000, MSG_NOSIGNAL));
    sent += 10000;
    fixture_run(&tunnel.fx);
    CHECK_INT(0, ioctl(tunnel.socket, SIOCOUTQ, &queued));
  }
  set_send_buffer(&tunnel, 1);
  shutdown(tunnel.app, SHUT_WR);
  fixture_run(&tunnel.fx);
  for (unsigned i = 0; i < 10000 && read < sent; i++) {
    read += read_some(&tunnel, read);
    fixture_run(&tunnel.fx);
  }
  CHECK_INT(sent, read);
  int notified = 0;
  for (unsigned i = 0; i < 100 && !notified; i++) {
    fixture_run(&tunnel.fx);
    tls_read(&tunnel.client, &notified);
  }
  CHECK_INT(1, notified);
  end(&tunnel);
}

CHECK_CASE(a_peer_that_ends_its_side) {
  for (int fin = 0; fin < 2; fin++) {
    tunnel tunnel;
    begin(&tunnel);
    SSL_write(tunnel.client.ssl, "last", 4);
    SSL_shutdown(tunnel.client.ssl);
    if (fin) shutdown(tunnel.client.fd, SHUT_WR);
    fixture_run(&tunnel.fx);
    bool ended;
    CHECK(strcmp(client_read(tunnel.app, &ended), "last") == 0);
    CHECK(ended);
    say(&tunnel, "answer");
    CHECK(strcmp(tls_read(&tunnel.client, NULL), "answer") == 0);
    close_app(&tunnel);
    int notified;
    tls_read(&tunnel.client, &notified);
    CHECK_INT(1, notified);
    end(&tunnel);
  }
}

CHECK_CASE(a_peer_that_goes) {
  for (int reset = 0; reset < 2; reset++) {
    tunnel tunnel;
    begin(&tunnel);
    if (reset) {
      client_reset(tunnel.client.fd);
      tunnel.client.fd = -1;
      fixture_run(&tunnel.fx);
    } else {
      tls_free(&tunnel.client);
      tunnel.client = tls_client_on(&tunnel.fx, -1, TLS1_3_VERSION, NULL);
    }
    bool ended;
    client_read(tunnel.app, &ended);
    CHECK(ended);
    end(&tunnel);
  }
}

/* A drain ends what the application reads, refuse both directions, abort everything at once. */
CHECK_CASE(a_stop) {
  tunnel tunnel;
  begin(&tunnel);
  ab_engine_drain(tunnel.fx.engine, tunnel.fx.now);
  fixture_pass(&tunnel.fx, 1);
  bool ended;
  client_read(tunnel.app, &ended);
  CHECK(ended);
  tls_send(&tunnel.client, "thrown away");
  say(&tunnel, "goodbye");
  int notified;
  CHECK(strcmp(tls_read(&tunnel.client, &notified), "goodbye") == 0);
  CHECK_INT(0, notified);
  ab_engine_refuse(tunnel.fx.engine, tunnel.fx.now);
  fixture_pass(&tunnel.fx, 1);
  fixture_run(&tunnel.fx); /* the poller tells of the end */
  tls_read(&tunnel.client, &notified);
  CHECK_INT(1, notified);
  CHECK_INT(0, stats_of(&tunnel.fx).taken_over);
  CHECK(fcntl(tunnel.app, F_GETFD) >= 0);
  end(&tunnel);
}

CHECK_CASE(an_abort) {
  tunnel tunnel;
  begin(&tunnel);
  ab_engine_abort(tunnel.fx.engine);
  bool ended;
  client_read(tunnel.app, &ended);
  CHECK(ended);
  CHECK_INT(0, stats_of(&tunnel.fx).tls_connections);
  int notified;
  tls_read(&tunnel.client, &notified);
  CHECK(notified != 0);
  end(&tunnel);
}

/* Without memory for it the connection stays what it was. */
CHECK_CASE(memory_that_fails) {
  for (size_t at = 1;; at++) {
    fixture fx;
    fixture_init(&fx);
    fx.hold = true;
    uint16_t port = tls_listen_on(&fx, NULL);
    tls_client client = tls_connect(&fx, port);
    tls_send(&client, GET("/a"));
    ab_handover ends;
    const char *ptr;
    size_t len;
    fx.mem.fail_at = fx.mem.calls + at;
    ab_engine_lock(fx.engine);
    CHECK_INT(AB_OK, ab_exchange_prepare_handover(fx.held[0], &ends));
    int error = ab_exchange_detach(fx.held[0], &ends, &ptr, &len);
    ab_engine_unlock(fx.engine);
    if (error) {
      CHECK_INT(AB_ENOMEM, error);
      CHECK(!ab_exchange_gone(fx.held[0]));
      CHECK_INT(0, stats_of(&fx).taken_over);
      close(ends.own);
      close(ends.fd);
      answer_held(&fx, 0, "here");
      fixture_run(&fx);
      CHECK(strstr(tls_read(&client, NULL), "here"));
      tls_end(&client, &fx);
      continue;
    }
    fx.mem.fail_at = 0;
    ab_engine_lock(fx.engine);
    ab_exchange_finish(fx.held[0], AB_FINISH_COMPLETE);
    ab_engine_unlock(fx.engine);
    fx.held_count = 0;
    close(ends.fd);
    fixture_run(&fx);
    CHECK(at > 2);
    tls_end(&client, &fx);
    break;
  }
}

/* Without descriptors for it, too. */
CHECK_CASE(descriptors_that_are_missing) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  tls_client client = tls_connect(&fx, tls_listen_on(&fx, NULL));
  tls_send(&client, GET("/a"));
  struct rlimit before, none;
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &before));
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &none));
  ab_handover ends;
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_ESYS, ab_exchange_prepare_handover(fx.held[0], &ends));
  CHECK_INT(EMFILE, errno);
  ab_engine_unlock(fx.engine);
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &before));
  CHECK(ends.fd == -1 && ends.own == -1);
  CHECK(!ab_exchange_gone(fx.held[0]));
  CHECK_INT(0, stats_of(&fx).taken_over);
  answer_held(&fx, 0, "here");
  fixture_run(&fx);
  CHECK(strstr(tls_read(&client, NULL), "here"));
  tls_end(&client, &fx);
}

enum { EACH = 200000 };
static char back[EACH];

typedef struct progress {
  size_t said, read;  /* by the application; and by the peer */
  size_t told, heard; /* by the peer; and by the application */
} progress;

static void write_both(tunnel *tunnel, progress *now) {
  ssize_t n = send(tunnel->app, plenty + now->said, EACH - now->said, MSG_NOSIGNAL);
  if (n > 0) now->said += (size_t)n;
  ERR_clear_error();
  int m = now->told < EACH
              ? SSL_write(tunnel->client.ssl, plenty + now->told, (int)(EACH - now->told))
              : 0;
  if (m > 0) now->told += (size_t)m;
  fixture_run(&tunnel->fx);
}

/* False if nothing has come. */
static bool read_both(tunnel *tunnel, progress *now) {
  size_t n = read_some(tunnel, now->read);
  ssize_t m = recv(tunnel->app, back + now->heard, EACH - now->heard, 0);
  now->read += n;
  if (m > 0) now->heard += (size_t)m;
  fixture_run(&tunnel->fx);
  return n > 0 || m > 0;
}

/* A tunnel in use, whose allocation number `at` fails: all bytes go to and fro, past sockets that
 * are full at first, or it ends. False: there are not so many allocations. */
static bool use_failing(size_t at) {
  tunnel tunnel;
  begin(&tunnel);
  fill();
  set_send_buffer(&tunnel, 1);
  progress now = {0};
  size_t last = tunnel.fx.mem.calls + at;
  tunnel.fx.mem.fail_at = last;
  for (unsigned i = 0; i < 20; i++) write_both(&tunnel, &now);
  for (unsigned i = 0; i < 1000 && (now.read < EACH || now.heard < EACH); i++) {
    write_both(&tunnel, &now);
    if (read_both(&tunnel, &now)) continue;
    if (stats_of(&tunnel.fx).tls_connections == 0) break;
    poll(&(struct pollfd){.fd = tunnel.client.fd, .events = POLLIN}, 1, 10); /* the kernel's time */
  }
  bool failed = tunnel.fx.mem.calls >= last, whole = now.read == EACH && now.heard == EACH;
  CHECK(whole || (failed && stats_of(&tunnel.fx).tls_connections == 0));
  CHECK(memcmp(got, plenty, now.read) == 0);
  CHECK(memcmp(back, plenty, now.heard) == 0);
  end(&tunnel);
  return failed;
}

CHECK_CASE(memory_that_fails_later) {
  signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to tunnels that have ended */
  size_t at = 1;
  while (at < 1000 && use_failing(at)) at++;
  CHECK(at > 3 && at < 1000);
}

CHECK_MAIN()
