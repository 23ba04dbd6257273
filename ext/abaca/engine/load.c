/* Files that are not in memory: sendfile would wait for them with the lock held. So a thread first
 * reads the next piece, without the lock; meanwhile the connection sends nothing, and no deadline
 * of its peer counts. All but the thread's part and ab__loads_fini run with the lock held. */
#include <errno.h>
#include <stdlib.h>

#include "engine/conn.h"
#include "io/storage.h"

/* Pieces that are read at a time, for all connections; each takes a descriptor. */
#define READERS 4

/* A thread's part, with its own descriptor, since the connection may be dropped meanwhile. */
typedef struct ab_load_job {
  ab_blocking_job job;
  void (*warm)(int fd, uint64_t offset, size_t len);
  int fd;
  uint64_t offset;
  size_t len;
} load_job;

const ab_storage_calls ab__storage_calls = {ab_storage_is_warm, ab_storage_warm};

/* --- the thread's part --- */

static void close_file(load_job *load) {
  ab_fd_close(load->fd);
  load->fd = -1;
}

static void run_job(ab_blocking_job *job) {
  load_job *load = AB_CONTAINER_OF(job, load_job, job);
  load->warm(load->fd, load->offset, load->len);
  close_file(load); /* here, since that may wait as well */
}

static void fini_job(ab_blocking_job *job) {
  load_job *load = AB_CONTAINER_OF(job, load_job, job);
  close_file(load);
  free(load);
}

/* --- beginning --- */

/* Up to the file's next piece: the rest of one read in part was loaded with it. */
static size_t piece_of(const ab_outbox_next_op *next) {
  size_t most = AB_STORAGE_PIECE - (size_t)(next->file_offset % AB_STORAGE_PIECE);
  return next->file_len < most ? (size_t)next->file_len : most;
}

static void end_load(ab_conn *conn) {
  ab_load *load = ab__conn_load(conn);
  ab_list_remove(&load->link);
  conn->stall->load = NULL;
  ab_free(&conn->engine->mem, load);
}

/* The connection's next step is to send it. If it cannot be read, sendfile will say so. */
static void mark_read(ab_load *load) {
  load->job = NULL;
  load->read = true;
  ab__engine_ready(load->conn);
}

static void job_done(ab_blocking_job *job) {
  mark_read(job->owner);
}

/* Hands the piece to a thread. False if there is no memory, descriptor or thread for it. */
static bool submit(ab_load *load, const ab_outbox_next_op *next) {
  ab_engine *engine = load->conn->engine;
  load_job *job = calloc(1, sizeof *job); /* it may outlive the engine's memory */
  if (!job) return false;
  *job = (load_job){.job = {.run = run_job, .done = job_done, .fini = fini_job, .owner = load},
                    .warm = engine->storage->warm,
                    .fd = ab_fd_duplicate(next->file_fd),
                    .offset = next->file_offset,
                    .len = piece_of(next)};
  if (job->fd >= 0 && ab_blocking_submit(engine->readers_pool, &job->job) == AB_OK) {
    load->job = job;
    return true;
  }
  fini_job(&job->job);
  return false;
}

/* Threads are for servers that send files from disks. */
static bool have_pool(ab_engine *engine) {
  if (engine->readers_pool) return true;
  if (engine->poller) engine->readers_pool = ab_blocking_init(engine->poller, READERS);
  if (!engine->readers_pool) return false;
  engine->readers_poller = engine->poller;
  ab_poller_hold(engine->poller);
  return true;
}

/* False: loading is impossible, and the file is sent as it is. */
static bool begin_load(ab_conn *conn, const ab_outbox_next_op *next) {
  ab_engine *engine = conn->engine;
  ab_stall *stall = have_pool(engine) ? ab__conn_stall(conn) : NULL;
  ab_load *load = stall ? ab_alloc_zero(&engine->mem, sizeof *load) : NULL;
  if (!load) return false;
  stall->load = load;
  load->conn = conn;
  ab_list_init(&load->link);
  if (ab_blocking_pending(engine->readers_pool) >= READERS) {
    ab_list_append(&engine->cold, &load->link);
  } else if (!submit(load, next)) {
    end_load(conn);
    return false;
  }
  /* Like a slow reader's, its files are descriptors that others may need more. */
  ab__files_blocked(conn, false);
  return true;
}

size_t ab__load_next(ab_conn *conn, const ab_outbox_next_op *next) {
  size_t piece = piece_of(next);
  if (AB_UNLIKELY(ab__load_waits(conn))) return 0; /* a stream is asked whenever there is more */
  if (AB_UNLIKELY(ab__conn_load(conn) != NULL)) {
    end_load(conn);
    return piece;
  }
  if (AB_LIKELY(conn->engine->storage->is_warm(next->file_fd, next->file_offset, piece))) {
    return piece;
  }
  return begin_load(conn, next) ? 0 : piece;
}

/* --- continuing, and the end --- */

void ab__loads_reap(ab_engine *engine) {
  ab_blocking_reap(engine->readers_pool);
  while (ab_blocking_pending(engine->readers_pool) < READERS) {
    ab_list *node = ab_list_shift(&engine->cold);
    if (!node) return;
    ab_load *load = AB_CONTAINER_OF(node, ab_load, link);
    ab_outbox_next_op *next = &engine->next_op;
    ab_outbox_next(load->conn->out, next);
    if (next->op != AB_OUTBOX_FILE || !submit(load, next)) mark_read(load);
  }
}

void ab__load_drop(ab_conn *conn) {
  ab_load *load = ab__conn_load(conn);
  if (AB_LIKELY(!load)) return;
  if (load->job && conn->engine->readers_pool) {
    ab_blocking_abandon(conn->engine->readers_pool, &load->job->job);
  }
  end_load(conn);
}

void ab__loads_fini(ab_engine *engine) {
  if (!engine->readers_pool) return;
  ab_blocking_fini(engine->readers_pool);
  ab_poller_fini(engine->readers_poller);
  engine->readers_pool = NULL;
  engine->readers_poller = NULL;
}
