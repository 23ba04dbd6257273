/* Rows: what is rare in their writing, and their reading. */
#include "page/row_taken.h"

#include <string.h>

static uint32_t microseconds(ab_nsec time) {
  ab_nsec whole = time / 1000;
  return whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX;
}

static void note(ab_row *row, const ab_wait *wait) {
  ab_words_put(&row->waits[row->wait_count % AB_ROW_WAITS], wait, sizeof(*wait));
  AB_PUT(row->wait_count, row->wait_count + 1);
}

void ab__row_note_part(ab_row *row, enum ab_state state, ab_nsec time) {
  ab_nsec past = row->since - row->began;
  const ab_wait wait = {.at = microseconds(past > time ? past - time : 0),
                        .time = microseconds(time),
                        .state = (uint8_t)state};
  note(row, &wait);
}

void ab__row_note_wait(ab_row *row, ab_nsec until) {
  const ab_addr *peer = &row->waits_for;
  ab_wait wait = {.at = microseconds(row->since - row->began),
                  .time = microseconds(until - row->since),
                  .state = (uint8_t)ab_row_state(row),
                  .family = peer->family,
                  .port = peer->port};
  if (peer->family == 4) memcpy(wait.peer, peer->bytes, sizeof(wait.peer));
  note(row, &wait);
}

/* An address is five halves of words. */
static void row_put_addr(ab_addr *to, const ab_addr *from) {
  _Static_assert(sizeof(*to) == 5 * sizeof(ab_half_word), "an address is short");
  for (size_t i = 0; i < 5; i++) {
    ab_half_word half;
    memcpy(&half, (const char *)from + i * sizeof(half), sizeof(half));
    AB_PUT(((ab_half_word *)to)[i], half);
  }
}

void ab_row_wait(ab_row *row, enum ab_state state, const ab_addr *peer, ab_nsec now) {
  ab_row_open(row);
  ab__row_charge(row, state, now);
  row_put_addr(&row->waits_for, peer);
  ab_row_close(row);
}

static void put_path(ab_row *row, ab_view path) {
  size_t len = path.len < AB_ROW_PATH ? path.len : AB_ROW_PATH;
  char words[AB_ROW_PATH];
  size_t whole = (len + sizeof(ab_word) - 1) & ~(sizeof(ab_word) - 1);
  if (len) {
    memset(words + whole - sizeof(ab_word), 0, sizeof(ab_word));
    memcpy(words, path.ptr, len);
  }
  ab_words_put(row->path, words, whole);
  AB_PUT(row->path_len, (uint8_t)len);
}

void ab__row_clean(ab_row *row) {
  AB_PUT(row->touched, AB_ROW_PLAIN);
  AB_PUT(row->route, AB_ROW_NO_ROUTE);
  AB_PUT(row->cpu, 0);
  AB_PUT(row->wait_count, 0);
  ab_words_clear(row->sums, sizeof(row->sums));
  AB_PUT(row->waits_for.family, 0);
  ab_words_clear(row->trace, sizeof(row->trace));
  AB_PUT(row->number, 0);
  AB_PUT(row->reason, 0);
  AB_PUT(row->end, AB_ROW_END_DONE);
  AB_PUT(row->sampled, 0);
  for (size_t i = 0; i < sizeof(row->span); i++) AB_PUT(row->span[i], 0);
  AB_PUT(row->stalls, 0);
  AB_PUT(row->stall_time, 0);
}

/* What is in `touched` of a row that is not plain: the sum of that state may be 0. */
#define NOT_PLAIN (1u << AB_STATE_PROXY)

void ab_row_begin(ab_row *row, const ab_row_start *start) {
  static const ab_addr nobody = {.family = 0};
  ab_row_open(row);
  ab__row_clean(row);
  AB_PUT(row->touched, NOT_PLAIN);
  AB_PUT(row->state, (uint8_t)start->state);
  AB_PUT(row->used, 1);
  AB_PUT(row->mode, (uint8_t)start->mode);
  AB_PUT(row->phase, AB_ROW_CALLED);
  AB_PUT(row->since, start->began);
  AB_PUT(row->id, start->id);
  AB_PUT(row->began, start->began);
  AB_PUT(row->taken, 0);
  AB_PUT(row->place, start->place);
  AB_PUT(row->children, 0);
  AB_PUT(row->status, 0);
  AB_PUT(row->method, (uint8_t)start->method);
  row_put_addr(&row->peer, start->peer ? start->peer : &nobody);
  put_path(row, start->path);
  ab_row_close(row);
}

void ab_row_times(const ab_row *row, ab_nsec now, uint64_t times[AB_STATE_COUNT]) {
  memcpy(times, row->sums, sizeof(row->sums));
  if (now > row->since) times[ab_row_state(row)] += now - row->since;
}

void ab_row_set_trace(ab_row *row, const ab_trace *trace) {
  ab_row_open(row);
  ab_words_put(row->trace, trace->trace, sizeof(row->trace));
  for (size_t i = 0; i < sizeof(row->span); i++) AB_PUT(row->span[i], trace->span[i]);
  AB_PUT(row->sampled, trace->sampled);
  ab_row_close(row);
}

/* --- reading --- */

static bool row_is_sound(const ab_row *copy) {
  return copy->used && copy->state < AB_STATE_COUNT && copy->path_len <= AB_ROW_PATH &&
         copy->mode < AB_ROW_MODES && copy->phase < AB_ROW_PHASES &&
         copy->method < AB_ROW_METHOD_COUNT;
}

bool ab_row_load(const ab_row *row, ab_row *copy) {
  return ab_row_look(row, copy, true);
}

bool ab_row_look(const ab_row *row, ab_row *copy, bool waits) {
  size_t size = waits ? sizeof(*row) : offsetof(ab_row, waits);
  for (int i = 0; i < AB_SEQ_TRIES; i++) {
    uint32_t seq = ab_seq_begin(&row->seq);
    if (!AB_GET(row->used)) return false;
    ab_words_get(copy, row, size);
    if (ab_seq_holds(&row->seq, seq)) return row_is_sound(copy);
  }
  return false;
}

unsigned ab_row_waits(const ab_row *copy, ab_wait waits[AB_ROW_WAITS]) {
  unsigned count = copy->wait_count < AB_ROW_WAITS ? copy->wait_count : AB_ROW_WAITS, sound = 0;
  for (unsigned i = 0; i < count; i++) {
    const ab_wait *wait = &copy->waits[(copy->wait_count - count + i) % AB_ROW_WAITS];
    if (wait->state < AB_STATE_COUNT) waits[sound++] = *wait;
  }
  return sound;
}

/* --- names --- */

const char *ab_state_name(enum ab_state state) {
  static const char *const names[] = {
#define AB_STATE_TEXT(name, text) text,
      AB_STATES(AB_STATE_TEXT)
#undef AB_STATE_TEXT
  };
  return names[state];
}

const char *ab_row_mode_name(enum ab_row_mode mode) {
  static const char *const names[AB_ROW_MODES] = {"queued", "fiber", "thread", "guest"};
  return names[mode];
}

const char *ab_row_phase_name(enum ab_row_phase phase) {
  static const char *const names[AB_ROW_PHASES] = {"called", "answers", "answered"};
  return names[phase];
}

const char *ab_row_end_name(enum ab_row_end end) {
  static const char *const names[] = {
#define AB_ROW_END_TEXT(name, text) text,
      AB_ROW_END_KINDS(AB_ROW_END_TEXT)
#undef AB_ROW_END_TEXT
  };
  return names[end];
}

static const char *const methods[] = {"_OTHER",
#define AB_ROW_METHOD_TEXT(name) #name,
                                      AB_ROW_METHODS(AB_ROW_METHOD_TEXT)
#undef AB_ROW_METHOD_TEXT
};

const char *ab_row_method_name(enum ab_row_method method) {
  return methods[method];
}

enum ab_row_method ab_row_method_of(const char *ptr, size_t len) {
  for (unsigned i = 1; i < AB_ROW_METHOD_COUNT; i++) {
    if (strlen(methods[i]) == len && memcmp(methods[i], ptr, len) == 0)
      return (enum ab_row_method)i;
  }
  return AB_ROW_METHOD_OTHER;
}
