/* What one ab_head_parse costs, in nanoseconds: the best of several runs, on one thread.
 *
 *   gcc -std=c11 -D_GNU_SOURCE -O2 -Iext/abaca bench/micro/http1_parse.c \
 *     ext/abaca/{http,http1}/[a-z]*.c -o tmp/http1_parse && tmp/http1_parse
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http1/head.h"

#define RUNS  15
#define CALLS 200000

static const char small[] = "GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";

static const char curl[] = "GET /hello HTTP/1.1\r\n"
                           "Host: localhost:8080\r\n"
                           "User-Agent: curl/7.88.1\r\n"
                           "Accept: */*\r\n\r\n";

static const char browser[] =
    "GET /articles/2024/05/a-walk-in-the-hills?page=2&sort=recent HTTP/1.1\r\n"
    "Host: www.example.test\r\n"
    "Connection: keep-alive\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n"
    "Accept-Encoding: gzip, deflate, br\r\n"
    "Referer: http://www.example.test/articles/2024/05\r\n"
    "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n"
    "Upgrade-Insecure-Requests: 1\r\n\r\n";

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double run(const char *bytes, size_t len, const ab_limits *limits) {
  ab_field fields[128];
  ab_head head;
  double start = now();
  for (int i = 0; i < CALLS; i++) {
    ab_head_progress progress = {0};
    if (ab_head_parse(bytes, len, limits, NULL, &progress, &head, fields) != (int)len) abort();
    __asm__ volatile("" : : "r"(&head), "r"(fields) : "memory");
  }
  return (now() - start) / CALLS;
}

static void measure(const char *name, const char *bytes) {
  const ab_limits limits = ab_limits_default();
  size_t len = strlen(bytes);
  double best = 1e9;
  for (int i = 0; i < RUNS; i++) {
    double one = run(bytes, len, &limits);
    if (one < best) best = one;
  }
  printf("%-8s %4zu bytes %7.1f ns\n", name, len, best);
}

int main(void) {
  measure("small", small);
  measure("curl", curl);
  measure("browser", browser);
  return 0;
}
