/* The sketch of clients: heavy ones are in it, and its numbers are off by no more than it says. */
#include "check.h"
#include "page/opens.h"

static ab_page_client clients[AB_PAGE_CLIENTS];
static ab_page_clients table;

static void begin(void) {
  memset(clients, 0, sizeof clients);
  ab_page_clients_over(&table, clients, AB_PAGE_CLIENTS);
}

static ab_addr address(uint32_t i) {
  return (ab_addr){.bytes = {(uint8_t)(i >> 24), (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i},
                   .port = (uint16_t)(i * 7),
                   .family = 4};
}

static void count(uint32_t i) {
  ab_addr addr = address(i);
  ab_page_clients_count(&table, &addr, &(ab_page_client_request){.bytes = 10, .error = i % 2});
}

/* The number of the place that an address has; -1 without one. */
static int place(uint32_t i) {
  ab_addr addr = address(i);
  ab_page_client copy;
  for (int at = 0; at < AB_PAGE_CLIENTS; at++) {
    if (ab_page_client_load(&clients[at], &copy) && memcmp(copy.addr.bytes, addr.bytes, 4) == 0)
      return at;
  }
  return -1;
}

CHECK_CASE(clients_are_counted) {
  begin();
  ab_page_client copy;
  CHECK(!ab_page_client_load(&clients[0], &copy));
  count(1);
  count(2);
  count(1);
  CHECK(ab_page_client_load(&clients[0], &copy));
  CHECK_INT(2, copy.requests);
  CHECK_INT(20, copy.bytes);
  CHECK_INT(2, copy.errors);
  CHECK_INT(0, copy.over);
  CHECK_INT(0, copy.addr.port);
  CHECK(ab_page_client_load(&clients[1], &copy));
  CHECK_INT(0, copy.errors);
  CHECK(!ab_page_client_load(&clients[2], &copy));
}

CHECK_CASE(ports_and_families) {
  begin();
  ab_addr one = address(1), other = one, six = {.bytes = {1}, .family = 6},
          unix_socket = {.port = 1};
  ab_page_client_request request = {.slow = true};
  other.port = 9;
  other.bytes[9] = 77; /* no part of an IPv4 address */
  ab_page_clients_count(&table, &one, &request);
  ab_page_clients_count(&table, &other, &request);
  ab_page_clients_count(&table, &six, &request);
  ab_page_clients_count(&table, &unix_socket, &request);
  CHECK_INT(3, table.used);
  CHECK_INT(2, clients[0].slow);
}

CHECK_CASE(open_connections) {
  begin();
  static ab_opens opens;
  ab_addr one = address(1), two = address(2), other = one;
  other.port = 9;
  count(1);
  count(2);
  ab_opens_add(&opens, &one);
  ab_opens_add(&opens, &other);
  ab_opens_add(&opens, &two);
  ab_opens_show(&opens, clients, AB_PAGE_CLIENTS);
  CHECK_INT(2, clients[0].open);
  CHECK_INT(1, clients[1].open);
  ab_opens_remove(&opens, &one);
  ab_opens_remove(&opens, &two);
  ab_opens_remove(&opens, &two); /* one too many */
  ab_opens_show(&opens, clients, AB_PAGE_CLIENTS);
  CHECK_INT(1, clients[0].open);
  CHECK_INT(0, clients[1].open);
  ab_opens_remove(&opens, &one);
  CHECK_INT(0, opens.used);
}

/* Against a plain table: whatever ends leaves the others where they are found. */
CHECK_CASE(open_connections_of_many) {
  static ab_opens opens;
  static uint32_t expected[AB_PAGE_OPENS + 200];
  uint32_t word = 1, most = 0;
  memset(&opens, 0, sizeof(opens));
  for (int i = 0; i < 60000; i++) {
    word = word * 1664525u + 1013904223u;
    uint32_t n = (word >> 8) % AB_ARRAY_LEN(expected);
    ab_addr addr = address(n);
    bool full = opens.used == AB_PAGE_OPENS, more = i < 40000 ? word >> 30 != 0 : word >> 30 == 0;
    if (more && (expected[n] || !full)) {
      ab_opens_add(&opens, &addr);
      expected[n]++;
    } else if (expected[n]) {
      ab_opens_remove(&opens, &addr);
      expected[n]--;
    }
    if (opens.used > most) most = opens.used;
  }
  CHECK_INT(AB_PAGE_OPENS, most);
  for (uint32_t n = 0; n < AB_ARRAY_LEN(expected); n++) {
    ab_addr addr = address(n);
    CHECK_INT(expected[n], ab_opens_count(&opens, &addr));
  }
  for (uint32_t n = 0; n < AB_ARRAY_LEN(expected); n++) {
    ab_addr addr = address(n);
    for (; expected[n]; expected[n]--) ab_opens_remove(&opens, &addr);
  }
  CHECK_INT(0, opens.used);
}

static uint32_t open_of(uint32_t i) {
  int at = place(i);
  return at < 0 ? 0 : clients[at].open;
}

/* Who floods with connections may never ask for anything. */
CHECK_CASE(connections_of_one_that_asks_nothing) {
  static ab_opens opens;
  begin();
  ab_addr silent = address(7000), few = address(7001);
  for (int i = 0; i < 8; i++) ab_opens_add(&opens, &silent);
  ab_opens_introduce(&opens, &table);
  CHECK_INT(8, open_of(7000));
  CHECK_INT(0, clients[0].requests);
  for (int i = 0; i < 8; i++) ab_opens_remove(&opens, &silent);
  ab_opens_show(&opens, clients, AB_PAGE_CLIENTS);
  CHECK_INT(-1, place(7000));
  ab_opens_add(&opens, &silent); /* it comes again */
  ab_opens_introduce(&opens, &table);
  CHECK_INT(1, open_of(7000));

  begin();
  for (uint32_t i = 0; i < 2 * AB_PAGE_CLIENTS; i++) count(i % AB_PAGE_CLIENTS);
  count(1);
  for (int i = 0; i < 7; i++) ab_opens_add(&opens, &silent);
  for (int i = 0; i < 7; i++) ab_opens_add(&opens, &few);
  ab_opens_introduce(&opens, &table);
  CHECK_INT(8, open_of(7000));
  CHECK_INT(-1, place(7001)); /* nobody goes for so few */
  CHECK_INT(-1, place(0));
  CHECK(place(1) >= 0);
  CHECK_INT(2, clients[place(7000)].over);
}

/* A flood of addresses: whoever has more than 1/64 of all is found, and is off by no more than
 * told. */
CHECK_CASE(heavy_clients_among_many) {
  begin();
  uint32_t total = 0, heavy = 0;
  for (uint32_t i = 0; i < 100000; i++) {
    count(1000 + i);
    total++;
    if (i % 20 != 0) continue;
    count(7);
    heavy++;
    total++;
  }
  int at = place(7);
  CHECK(at >= 0);
  CHECK(clients[at].requests >= heavy);
  CHECK(clients[at].requests - clients[at].over <= heavy);
  uint64_t sum = 0;
  for (unsigned i = 0; i < AB_PAGE_CLIENTS; i++) {
    sum += clients[i].requests;
    CHECK(clients[i].over <= total / AB_PAGE_CLIENTS);
  }
  CHECK_INT(total, sum);
  for (int i = 0; i < 100; i++) count(7);
  CHECK_INT(heavy + 100, clients[at].requests - clients[at].over);
}

CHECK_CASE(a_line_that_was_cut_short) {
  begin();
  ab_page_client copy;
  count(1);
  ab_seq_open(&clients[0].seq);
  CHECK(!ab_page_client_load(&clients[0], &copy));
  ab__page_client_forget(&clients[0]);
  CHECK(!ab_page_client_load(&clients[0], &copy));
  ab_page_clients_over(&table, clients, AB_PAGE_CLIENTS);
  count(2);
  CHECK(ab_page_client_load(&clients[0], &copy));
  CHECK_INT(1, copy.requests);
  CHECK_INT(2, copy.addr.bytes[3]);
}

CHECK_CASE(areas_of_other_sizes) {
  ab_addr one = address(1);
  ab_page_clients_over(&table, NULL, 0);
  ab_page_clients_count(&table, &one, &(ab_page_client_request){.bytes = 1});
  CHECK_INT(0, table.used);
  ab_page_clients_meet(&table, &one, 9);
  CHECK_INT(0, table.used);
  ab_page_clients_over(&table, clients, 1000);
  CHECK_INT(AB_PAGE_CLIENTS, table.count);
}

CHECK_MAIN()
