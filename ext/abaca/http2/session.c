/* The session as a whole: the library's object, its options, bytes in and out, and its end. */
#ifdef AB_HAVE_HTTP2

#include <string.h>

#include "base/bits.h"
#include "http2/internal.h"

/* The library refuses to send a longer head: it wants a limit. No head of ours is as long. */
#define SENT_HEAD_MAX ((size_t)1 << 24)

/* --- memory ---
 *
 * The library's is ours, each block on a list. Where an allocation fails, it leaves some structures
 * as they must not be (1.52 frees an item of DATA twice): the session is lost then, the library not
 * called any more, and its blocks are freed one by one. */

static void *mem_realloc(void *ptr, size_t size, void *user) {
  ab_h2 *h2 = user;
  ab_list *block = ptr ? (ab_list *)ptr - 1 : NULL;
  if (block) ab_list_remove(block);
  ab_list *moved = NULL;
  if (ab_add_size(size, sizeof *block, &size)) moved = ab_realloc(h2->mem, block, size);
  if (!moved) h2->lost = true;
  ab_list *kept = moved ? moved : block;
  if (kept) ab_list_append(&h2->blocks, kept);
  return moved ? moved + 1 : NULL;
}

static void *mem_malloc(size_t size, void *user) {
  return mem_realloc(NULL, size, user);
}

static void *mem_calloc(size_t count, size_t size, void *user) {
  size_t product;
  if (!ab_mul_size(count, size, &product)) return NULL;
  void *ptr = mem_malloc(product, user);
  if (ptr) memset(ptr, 0, product);
  return ptr;
}

static void mem_free(void *ptr, void *user) {
  ab_h2 *h2 = user;
  if (!ptr) return;
  ab_list_remove((ab_list *)ptr - 1);
  ab_free(h2->mem, (ab_list *)ptr - 1);
}

static void free_blocks(ab_h2 *h2) {
  for (ab_list *block; (block = ab_list_shift(&h2->blocks));) ab_free(h2->mem, block);
}

/* --- life --- */

/* Guards of the library's, since 1.57 and 1.61, and in distributions' 1.52; NULL in one without
 * them. Its bucket of resets knows nothing of streams that come to their end. It counts a
 * CONTINUATION again with each piece of its header. */
extern void nghttp2_option_set_stream_reset_rate_limit(nghttp2_option *option, uint64_t burst,
                                                       uint64_t rate) __attribute__((weak));
extern void nghttp2_option_set_max_continuations(nghttp2_option *option, size_t most)
    __attribute__((weak));

/* Ours are in guard.h and callbacks.c. */
static void relax(nghttp2_option *option) {
  if (nghttp2_option_set_stream_reset_rate_limit) {
    nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);
  }
  if (nghttp2_option_set_max_continuations) {
    nghttp2_option_set_max_continuations(option, (AB__H2_CONTINUATIONS_MAX + 1) * 9);
  }
}

static nghttp2_option *option_init(void) {
  nghttp2_option *option;
  if (nghttp2_option_new(&option) != 0) return NULL;
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
  nghttp2_option_set_max_send_header_block_length(option, SENT_HEAD_MAX);
  relax(option);
  /* Frames of unknown types are ignored, but told, so that they count. */
  for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++) {
    if (type != NGHTTP2_PRIORITY_UPDATE) {
      nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
    }
  }
  return option;
}

static bool session_init(ab_h2 *h2) {
  nghttp2_mem mem = {h2, mem_malloc, mem_free, mem_calloc, mem_realloc};
  nghttp2_session_callbacks *callbacks = ab__h2_callbacks_init();
  nghttp2_option *option = option_init();
  bool made = callbacks && option &&
              nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem) == 0;
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  return made;
}

static uint32_t at_most(uint64_t value, uint32_t ceiling) {
  return value < ceiling ? (uint32_t)value : ceiling;
}

static bool greet(ab_h2 *h2) {
  const ab_limits *limits = h2->limits;
  const nghttp2_settings_entry entries[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, at_most(limits->max_streams, INT32_MAX)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, at_most(limits->stream_window, AB__H2_WINDOW)},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, at_most(limits->max_head_size, UINT32_MAX)},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  uint32_t window = at_most(limits->connection_window, INT32_MAX);
  if (window < AB__H2_WINDOW) window = AB__H2_WINDOW;
  return nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, entries, AB_ARRAY_LEN(entries)) ==
             0 &&
         nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                               (int32_t)window) == 0;
}

ab_h2 *ab_h2_init(const ab_mem *mem, const ab_limits *limits, const ab_methods *methods,
                  const ab_h2_calls *calls, void *ctx) {
  ab_h2 *h2 = ab_alloc_zero(mem, sizeof *h2);
  if (!h2) return NULL;
  h2->mem = mem;
  h2->limits = limits;
  h2->methods = methods;
  h2->calls = *calls;
  h2->ctx = ctx;
  ab_list_init(&h2->streams);
  ab_list_init(&h2->blocks);
  ab__h2_guard_init(&h2->guard);
  if (session_init(h2) && greet(h2)) return h2;
  ab_h2_fini(h2);
  return NULL;
}

void ab_h2_fini(ab_h2 *h2) {
  if (!h2) return;
  ab_list_each (node, tmp, &h2->streams) {
    ab__h2_stream_fini(AB_CONTAINER_OF(node, ab_h2_stream, node));
  }
  if (!h2->lost) nghttp2_session_del(h2->session);
  free_blocks(h2);
  ab__h2_block_end(&h2->block, h2->mem);
  ab_free(h2->mem, h2);
}

const char *ab_h2_library(void) {
  return "nghttp2 " NGHTTP2_VERSION;
}

/* --- bytes --- */

static int end_with(ab_h2 *h2, uint32_t code) {
  h2->broken = true;
  if (h2->lost) return AB_ENOMEM;
  return nghttp2_session_terminate_session(h2->session, code) == 0 ? AB_OK : AB_ENOMEM;
}

int ab_h2_break(ab_h2 *h2, uint32_t code) {
  if (h2->broken) return AB_OK;
  if (!h2->receiving) return end_with(h2, code);
  /* Not within the library: it would go on with the frame. */
  h2->broken = true;
  h2->break_code = code;
  return AB_OK;
}

/* Why the library gave up. */
static uint32_t code_of(const ab_h2 *h2, ssize_t error) {
  switch (error) {
  case NGHTTP2_ERR_CALLBACK_FAILURE:
    return h2->break_code;
  case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
    return AB_H2_PROTOCOL_ERROR;

  default: /* floods */
    return AB_H2_ENHANCE_YOUR_CALM;
  }
}

int ab_h2_receive(ab_h2 *h2, const char *ptr, size_t len, ab_nsec now) {
  if (h2->broken || h2->lost) return AB_EPEER;
  h2->guard.now = now;
  h2->receiving = true;
  ssize_t taken = nghttp2_session_mem_recv(h2->session, (const uint8_t *)ptr, len);
  h2->receiving = false;
  if (h2->lost) return AB_EPEER;
  if (taken < 0) {
    (void)end_with(h2, code_of(h2, taken));
  } else if (nghttp2_session_get_outbound_queue_size(h2->session) > AB__H2_QUEUE_MAX) {
    (void)end_with(h2, AB_H2_ENHANCE_YOUR_CALM);
  }
  return h2->broken || h2->lost ? AB_EPEER : AB_OK;
}

/* GOAWAY has the last stream of those that were received: nothing is between. */
static void tell_last_stream(ab_h2 *h2) {
  h2->ending = false;
  int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);
  (void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
}

static int fill(ab_h2 *h2, ab_outbox *out) {
  while (!h2->lost && ab_outbox_pending(out) < h2->most) {
    const uint8_t *bytes;
    h2->paused = false;
    ssize_t len = nghttp2_session_mem_send(h2->session, &bytes);
    if (len == 0 && !h2->paused) return AB_OK;
    if (len < 0 || ab_outbox_write(out, (const char *)bytes, (size_t)len) != AB_OK) h2->lost = true;
  }
  return h2->lost ? AB_ENOMEM : AB_OK;
}

int ab_h2_fill(ab_h2 *h2, ab_outbox *out, uint64_t most) {
  if (h2->ending && !h2->lost) tell_last_stream(h2);
  h2->out = out;
  h2->most = most;
  int result = fill(h2, out);
  h2->out = NULL;
  return result;
}

/* --- state --- */

bool ab_h2_owes(const ab_h2 *h2) {
  return !h2->lost && (h2->ending || nghttp2_session_want_write(h2->session));
}

bool ab_h2_is_over(const ab_h2 *h2) {
  return h2->lost || (!ab_h2_owes(h2) && !nghttp2_session_want_read(h2->session));
}

uint32_t ab_h2_streams(const ab_h2 *h2) {
  return h2->open;
}

uint64_t ab_h2_requests(const ab_h2 *h2) {
  return h2->requests;
}

uint64_t ab_h2_frames(const ab_h2 *h2) {
  return h2->frames;
}

bool ab_h2_is_amid(const ab_h2 *h2) {
  return !h2->greeted || h2->in_block || h2->continued;
}

int ab_h2_warn_of_end(ab_h2 *h2) {
  if (h2->lost) return AB_ENOMEM;
  return nghttp2_submit_shutdown_notice(h2->session) == 0 ? AB_OK : AB_ENOMEM;
}

int ab_h2_end_session(ab_h2 *h2) {
  h2->ending = true;
  return AB_OK;
}

#endif
