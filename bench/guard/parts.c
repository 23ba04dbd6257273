/* Parts that do without Ruby and without a server, for callgrind: each runs ROUNDS times between
 * two marks, in the order of Parts::NAMES (parts.rb). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http1/head.h"
#include "outbox/outbox.h"

enum { ROUNDS = 1000, WARM_UP = 100, HEAD = 150, BODY = 65536 };

void guard_begin(void);
void guard_end(void);

static const char request[] =
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

typedef struct parts {
  ab_limits limits;
  ab_outbox_pool *pool;
  char head[HEAD], *body;
  uint64_t released;
} parts;

static void need(int result) {
  if (result == AB_OK) return;
  fprintf(stderr, "refused: %d\n", result);
  exit(1);
}

static void release(void *ctx, void *owner) {
  (void)owner;
  ((parts *)ctx)->released++;
}

static void parser(parts *self) {
  ab_head_progress progress = {0};
  ab_field fields[128];
  ab_head head;
  size_t len = sizeof request - 1;
  if (ab_head_parse(request, len, &self->limits, NULL, &progress, &head, fields) != (int)len) {
    need(AB_ESYS);
  }
}

/* A response: its head is copied, its body borrowed, and both are sent. */
static void outbox(parts *self) {
  ab_outbox *box = ab_outbox_init(self->pool);
  ab_outbox_next_op next;
  if (!box) need(AB_ENOMEM);
  need(ab_outbox_write(box, self->head, HEAD));
  need(ab_outbox_borrow(box, self->body, BODY, self));
  ab_outbox_next(box, &next);
  need(ab_outbox_shift(box, next.bytes));
  ab_outbox_fini(box);
}

static void measure(parts *self, void (*part)(parts *)) {
  for (int i = 0; i < WARM_UP; i++) part(self);
  guard_begin();
  for (int i = 0; i < ROUNDS; i++) part(self);
  guard_end();
}

int main(void) {
  parts self = {.limits = ab_limits_default(), .body = calloc(1, BODY)};
  self.pool = ab_outbox_pool_init(&ab_mem_libc, release, &self, 16, 16);
  if (!self.pool || !self.body) need(AB_ENOMEM);
  measure(&self, parser);
  measure(&self, outbox);
  ab_outbox_pool_fini(self.pool);
  free(self.body);
  return 0;
}
