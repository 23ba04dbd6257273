/* Request bodies on their way from the socket to rack.input. */
#include "engine/body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "http1/head.h"

int ab_body_init(ab_body **result, const ab_mem *mem, const ab_limits *limits,
                 const ab_framing *framing, ab_nsec now) {
  uint64_t most = limits->max_body_size ? limits->max_body_size : AB_BODY_CEILING;
  if (framing->body == AB_BODY_LENGTH && framing->length > most) return AB_HTTP1_BODY_TOO_LARGE;

  ab_body *body = ab_alloc_zero(mem, sizeof(*body));
  if (!body) return AB_HTTP1_NO_MEMORY;
  body->mem = mem;
  body->fd = -1;
  body->started = body->progress = now;
  body->chunked = framing->body == AB_BODY_CHUNKED;
  if (body->chunked) {
    ab_chunk_init(&body->chunks);
  } else {
    body->left = framing->length;
  }
  *result = body;
  return AB_OK;
}

void ab_body_fini(ab_body *body) {
  if (!body) return;
  if (body->fd >= 0) close(body->fd);
  ab_free(body->mem, body->octets);
  ab_free(body->mem, body);
}

/* A file that has no name, so that no accident leaves it behind. */
static int open_temporary(void) {
  const char *dir = getenv("TMPDIR");
  if (!dir || !*dir) dir = "/tmp";
  int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;

  /* Not every file system knows O_TMPFILE. */
  char path[4096];
  static const char name[] = "/abaca-XXXXXX";
  size_t len = strlen(dir);
  if (len + sizeof(name) > sizeof(path)) return -1;
  memcpy(path, dir, len);
  memcpy(path + len, name, sizeof(name));
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  return fd;
}

static int write_file(int fd, const char *buf, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, buf, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return AB_HTTP1_NO_STORAGE;
    buf += n;
    len -= (size_t)n;
  }
  return AB_OK;
}

static int move_to_file(ab_body *body) {
  int fd = open_temporary();
  if (fd < 0) return AB_HTTP1_NO_STORAGE;
  body->fd = fd;
  int err = write_file(fd, body->octets, (size_t)body->size);
  ab_free(body->mem, body->octets);
  body->octets = NULL;
  body->capacity = 0;
  return err;
}

/* Room for `needed` octets in memory: exactly the announced length when it is known, so that the
 * usual form costs one allocation; doubling otherwise. */
static int grow(ab_body *body, size_t needed, uint64_t most) {
  uint64_t wanted = body->chunked ? (uint64_t)body->capacity * 2 : body->size + body->left;
  if (wanted < 512) wanted = 512;
  if (wanted > most) wanted = most;
  if (wanted < needed) wanted = needed;
  char *octets = ab_realloc(body->mem, body->octets, (size_t)wanted);
  if (!octets) return AB_HTTP1_NO_MEMORY;
  body->octets = octets;
  body->capacity = (size_t)wanted;
  return AB_OK;
}

static int append(ab_body *body, const ab_limits *limits, const char *buf, size_t len) {
  uint64_t total;
  if (!ab_add_u64(body->size, len, &total)) return AB_HTTP1_BODY_TOO_LARGE;
  int err = AB_OK;
  if (body->fd < 0 && body->size + (body->chunked ? len : body->left) > limits->max_body_memory) {
    err = move_to_file(body);
  }
  if (!err && body->fd >= 0) {
    err = write_file(body->fd, buf, len);
  } else if (!err) {
    if (total > body->capacity) err = grow(body, (size_t)total, limits->max_body_memory);
    if (!err) memcpy(body->octets + body->size, buf, len);
  }
  if (!err) body->size = total;
  return err;
}

static int feed_length(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                       size_t *consumed) {
  size_t take = len < body->left ? len : (size_t)body->left;
  *consumed = take;
  if (take > 0) {
    int err = append(body, limits, buf, take);
    if (err) return err;
    body->left -= take;
  }
  return body->left == 0;
}

static int feed_chunks(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                       size_t *consumed) {
  *consumed = 0;
  for (;;) {
    size_t used = 0;
    ab_view data = {NULL, 0};
    int result =
        ab_chunk_decode(&body->chunks, limits, buf + *consumed, len - *consumed, &used, &data);
    *consumed += used;
    if (result == AB_CHUNK_DATA) {
      int err = append(body, limits, data.ptr, data.len);
      if (err) return err;
      continue;
    }
    return result == AB_CHUNK_DONE ? 1 : result; /* AB_CHUNK_MORE is 0 */
  }
}

int ab_body_feed(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                 size_t *consumed) {
  return body->chunked ? feed_chunks(body, limits, buf, len, consumed)
                       : feed_length(body, limits, buf, len, consumed);
}

ab_nsec ab_body_deadline(const ab_body *body, const ab_limits *limits) {
  ab_nsec deadline = body->progress + ab_limit_nsec(limits->body_timeout);
  if (limits->min_body_rate) {
    ab_nsec rate = body->started + ab_limit_nsec(limits->rate_grace) +
                   ab_limit_nsec(body->size / limits->min_body_rate);
    if (rate < deadline) deadline = rate;
  }
  return deadline;
}

int ab_body_take_file(ab_body *body) {
  int fd = body->fd;
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  body->fd = -1;
  return fd;
}
