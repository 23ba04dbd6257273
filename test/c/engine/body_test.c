/* Bodies: decoding, the way from memory to a file, deadlines, and what happens when there is no
 * room. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "engine/body.h"
#include "http1/head.h"

#define START (1000 * AB_NSEC_PER_SEC)

static const ab_framing chunked = {.body = AB_BODY_CHUNKED};

static ab_framing of_length(uint64_t length) {
  return (ab_framing){.body = AB_BODY_LENGTH, .length = length, .has_length = true};
}

static ab_body *begin(check_mem *mem, const ab_limits *limits, ab_framing framing) {
  ab_body *body = NULL;
  CHECK_INT(AB_OK, ab_body_init(&body, &mem->mem, limits, &framing, START));
  return body;
}

static void end(check_mem *mem, ab_body *body) {
  ab_body_fini(body);
  CHECK_INT(0, mem->live);
}

static int feed(ab_body *body, const ab_limits *limits, const char *text, size_t *used) {
  return ab_body_feed(body, limits, text, strlen(text), used);
}

/* Reads a file from where it stands; the result is static. */
static const char *contents(int fd, size_t *len) {
  static char buf[8192];
  ssize_t n = read(fd, buf, sizeof buf);
  *len = n < 0 ? 0 : (size_t)n;
  return buf;
}

static void length_takes_no_more_than_its_own(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, of_length(5));
  size_t used = 9;
  CHECK_INT(0, feed(body, &limits, "", &used));
  CHECK_INT(0, used);
  CHECK_INT(0, feed(body, &limits, "he", &used));
  CHECK_INT(2, used);
  CHECK_INT(1, feed(body, &limits, "lloGET /", &used));
  CHECK_INT(3, used);
  CHECK_INT(5, body->size);
  CHECK_OCTETS("hello", body->octets, body->size);
  CHECK_INT(-1, ab_body_take_file(body));
  end(&mem, body);
}

static void announced_length_costs_one_block(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, of_length(100000));
  static const char octets[1000];
  size_t used;
  for (int i = 1; i <= 100; i++) {
    CHECK_INT(i == 100, ab_body_feed(body, &limits, octets, sizeof octets, &used));
  }
  CHECK_INT(2, mem.calls);
  end(&mem, body);
}

static void chunks_in_any_segmentation(void) {
  static const char text[] = "3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: no\r\n\r\nGET /";
  const size_t whole = sizeof(text) - 1 - 5;
  ab_limits limits = ab_limits_default();
  for (size_t cut = 0; cut < whole; cut++) {
    check_mem mem;
    check_mem_init(&mem, 0);
    ab_body *body = begin(&mem, &limits, chunked);
    size_t first, second;
    CHECK_INT(0, ab_body_feed(body, &limits, text, cut, &first));
    CHECK_INT(cut, first);
    CHECK_INT(1, ab_body_feed(body, &limits, text + cut, sizeof(text) - 1 - cut, &second));
    CHECK_INT(whole, first + second);
    CHECK_OCTETS("abc0123456789", body->octets, body->size);
    end(&mem, body);
  }
}

static void chunk_errors_come_out(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  ab_body *body = begin(&mem, &limits, chunked);
  size_t used;
  CHECK_INT(AB_HTTP1_CHUNK_DATA_END, feed(body, &limits, "1\r\nabc", &used));
  end(&mem, body);

  limits.max_body_size = 4;
  body = begin(&mem, &limits, chunked);
  CHECK_INT(0, feed(body, &limits, "4\r\nabcd\r\n", &used));
  CHECK_INT(AB_HTTP1_BODY_TOO_LARGE, feed(body, &limits, "1\r\n", &used));
  end(&mem, body);
}

static void too_long_is_refused_unread(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  limits.max_body_size = 10;
  ab_body *body = NULL;
  ab_framing framing = of_length(11);
  CHECK_INT(AB_HTTP1_BODY_TOO_LARGE, ab_body_init(&body, &mem.mem, &limits, &framing, START));
  CHECK(!body);
  CHECK_INT(0, mem.calls);
  end(&mem, begin(&mem, &limits, of_length(10)));

  limits.max_body_size = 0;
  framing = of_length(AB_BODY_CEILING + 1);
  CHECK_INT(AB_HTTP1_BODY_TOO_LARGE, ab_body_init(&body, &mem.mem, &limits, &framing, START));
  end(&mem, begin(&mem, &limits, of_length(AB_BODY_CEILING)));
}

static void length_goes_to_a_file_above_the_limit(void) {
  ab_limits limits = ab_limits_default();
  limits.max_body_memory = 8;
  for (uint64_t length = 7; length <= 9; length++) {
    check_mem mem;
    check_mem_init(&mem, 0);
    ab_body *body = begin(&mem, &limits, of_length(length));
    size_t used;
    CHECK_INT(0, feed(body, &limits, "0", &used));
    CHECK_INT(1, ab_body_feed(body, &limits, "12345678", length - 1, &used));
    CHECK_INT(length > 8, body->fd >= 0);
    CHECK_INT(length <= 8, body->octets != NULL);
    CHECK_INT(length, body->size);
    end(&mem, body);
  }
}

static void chunks_go_to_a_file_above_the_limit(void) {
  ab_limits limits = ab_limits_default();
  limits.max_body_memory = 8;
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_body *body = begin(&mem, &limits, chunked);
  size_t used, len;
  CHECK_INT(0, feed(body, &limits, "8\r\n01234567\r\n", &used));
  CHECK_INT(-1, body->fd);
  CHECK_INT(0, feed(body, &limits, "1\r\n8\r\n", &used));
  CHECK(body->fd >= 0);
  CHECK(!body->octets);
  CHECK_INT(1, feed(body, &limits, "2\r\n9a\r\n0\r\n\r\n", &used));
  int fd = ab_body_take_file(body);
  CHECK_INT(-1, ab_body_take_file(body));
  end(&mem, body);

  /* The file is the taker's now: at its start, without a name, closed on exec. */
  const char *octets = contents(fd, &len);
  CHECK_OCTETS("0123456789a", octets, len);
  struct stat status;
  CHECK_INT(0, fstat(fd, &status));
  CHECK_INT(0, status.st_nlink);
  CHECK_INT(0600, status.st_mode & 0777);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  close(fd);
}

static void an_untaken_file_is_closed(void) {
  ab_limits limits = ab_limits_default();
  limits.max_body_memory = 0;
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_body *body = begin(&mem, &limits, of_length(1));
  size_t used;
  CHECK_INT(1, feed(body, &limits, "x", &used));
  int fd = body->fd;
  CHECK(fcntl(fd, F_GETFD) >= 0);
  end(&mem, body);
  CHECK_INT(-1, fcntl(fd, F_GETFD));
}

static void idle_deadline_follows_progress(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  limits.min_body_rate = 0;
  ab_body *body = begin(&mem, &limits, of_length(100));
  CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  body->progress += 7 * AB_NSEC_PER_SEC;
  CHECK_INT(START + 37 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  end(&mem, body);
}

static void rate_deadline_follows_what_came(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  limits.min_body_rate = 10;
  ab_body *body = begin(&mem, &limits, of_length(1000));
  CHECK_INT(START + 10 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  size_t used;
  CHECK_INT(0, feed(body, &limits, "0123456789012345678", &used));
  CHECK_INT(START + 11 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  /* However much has been paid in advance, the idle deadline holds. */
  static const char octets[900];
  CHECK_INT(0, ab_body_feed(body, &limits, octets, sizeof octets, &used));
  CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  end(&mem, body);
}

/* 2^60 octets at one octet a second: the product of seconds and nanoseconds does not fit. */
static void rate_of_a_huge_body_does_not_wrap(void) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_limits limits = ab_limits_default();
  limits.min_body_rate = 1;
  ab_body *body = begin(&mem, &limits, of_length(AB_BODY_CEILING));
  for (int bit = 33; bit < 60; bit++) {
    body->size = (uint64_t)1 << bit;
    CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
    body->size += 1234567;
    CHECK_INT(START + 30 * AB_NSEC_PER_SEC, ab_body_deadline(body, &limits));
  }
  end(&mem, body);
}

/* Every allocation fails once: an error comes out and nothing leaks. */
static void memory_runs_out(void) {
  ab_limits limits = ab_limits_default();
  limits.max_body_memory = 3000;
  static const char part[] = "3e8\r\n", data[1000];
  size_t refused = 0;
  for (size_t n = 1;; n++) {
    check_mem mem;
    check_mem_init(&mem, n);
    ab_body *body = NULL;
    size_t used;
    int result = ab_body_init(&body, &mem.mem, &limits, &chunked, START);
    for (int i = 0; i < 3 && result == 0; i++) {
      result = feed(body, &limits, part, &used);
      if (!result) result = ab_body_feed(body, &limits, data, sizeof data, &used);
      if (!result) result = feed(body, &limits, "\r\n", &used);
    }
    if (!result) result = feed(body, &limits, "0\r\n\r\n", &used);
    end(&mem, body);
    if (mem.calls < n) {
      CHECK_INT(1, result);
      break;
    }
    CHECK_INT(AB_HTTP1_NO_MEMORY, result);
    refused++;
  }
  CHECK(refused >= 3); /* the structure, and memory that grows */
}

static void no_place_for_the_file(void) {
  setenv("TMPDIR", "/proc/self/fdinfo", 1);
  ab_limits limits = ab_limits_default();
  limits.max_body_memory = 4;
  check_mem mem;
  check_mem_init(&mem, 0);
  size_t used;
  ab_body *body = begin(&mem, &limits, of_length(5));
  CHECK_INT(AB_HTTP1_NO_STORAGE, feed(body, &limits, "01234", &used));
  end(&mem, body);
  body = begin(&mem, &limits, chunked);
  CHECK_INT(0, feed(body, &limits, "4\r\n0123\r\n", &used));
  CHECK_INT(AB_HTTP1_NO_STORAGE, feed(body, &limits, "1\r\n4\r\n", &used));
  end(&mem, body);

  static char long_name[5000];
  memset(long_name, 'x', sizeof(long_name) - 1);
  long_name[0] = '/';
  setenv("TMPDIR", long_name, 1);
  body = begin(&mem, &limits, of_length(5));
  CHECK_INT(AB_HTTP1_NO_STORAGE, feed(body, &limits, "01234", &used));
  end(&mem, body);

  setenv("TMPDIR", "", 1); /* as if it were not set */
  body = begin(&mem, &limits, of_length(5));
  CHECK_INT(1, feed(body, &limits, "01234", &used));
  end(&mem, body);
  unsetenv("TMPDIR");
}

/* The device fills up while the file grows; a limit on the size of files stands for it. */
static void the_file_cannot_grow(void) {
  struct rlimit before, small;
  CHECK_INT(0, getrlimit(RLIMIT_FSIZE, &before));
  small = before;
  small.rlim_cur = 6;
  signal(SIGXFSZ, SIG_IGN);
  ab_limits limits = ab_limits_default();
  limits.max_body_memory = 4;
  check_mem mem;
  check_mem_init(&mem, 0);
  size_t used;
  ab_body *body = begin(&mem, &limits, of_length(12));
  CHECK_INT(0, setrlimit(RLIMIT_FSIZE, &small));
  CHECK_INT(0, feed(body, &limits, "0123", &used));
  int result = feed(body, &limits, "4567", &used); /* two of them fit */
  CHECK_INT(0, setrlimit(RLIMIT_FSIZE, &before));
  CHECK_INT(AB_HTTP1_NO_STORAGE, result);
  end(&mem, body);
  signal(SIGXFSZ, SIG_DFL);
}

CHECK_MAIN(CHECK_CASE(length_takes_no_more_than_its_own),
           CHECK_CASE(announced_length_costs_one_block), CHECK_CASE(chunks_in_any_segmentation),
           CHECK_CASE(chunk_errors_come_out), CHECK_CASE(too_long_is_refused_unread),
           CHECK_CASE(length_goes_to_a_file_above_the_limit),
           CHECK_CASE(chunks_go_to_a_file_above_the_limit), CHECK_CASE(an_untaken_file_is_closed),
           CHECK_CASE(idle_deadline_follows_progress), CHECK_CASE(rate_deadline_follows_what_came),
           CHECK_CASE(rate_of_a_huge_body_does_not_wrap), CHECK_CASE(memory_runs_out),
           CHECK_CASE(no_place_for_the_file), CHECK_CASE(the_file_cannot_grow))
