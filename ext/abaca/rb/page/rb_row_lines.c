/* Abaca::Page: the requests of all slots, written as JSON without an object for each. */
#include <ruby/encoding.h>

#include "io/timer.h"
#include "page/look.h"
#include "page/row_json.h"
#include "rb/page/rb_page_parts.h"

typedef struct look {
  ab_page *page;
  ab_row_beside beside; /* as far as all rows have it in common */
  uint32_t numbers;
  bool brief;
  VALUE text;
  size_t most, written;
} look;

/* --- which ones --- */

/* What a slot has been claimed for; 0: there is no process in it. */
static uint32_t claims_of(const ab_page_slot *slot) {
  ab_page_view view = ab_page_look(slot);
  return view.settled && ab_page_is_live(view.state) ? view.claims : 0;
}

static size_t room_of(ab_page *page) {
  size_t room = 0;
  for (uint32_t i = 0; i < ab_page_size(page); i++) {
    ab_page_parts parts = ab_page_parts_to_read(page, i);
    room += ab_row_found_most(&parts);
  }
  return room;
}

static size_t find(ab_row_found *found, size_t room, uint32_t *claims, ab_page *page) {
  size_t count = 0;
  for (uint32_t i = 0; i < ab_page_size(page); i++) {
    ab_page_parts parts = ab_page_parts_to_read(page, i);
    claims[i] = claims_of(parts.slot);
    if (claims[i]) count += ab_row_find(found + count, room - count, &parts, i);
  }
  ab_row_sort(found, count);
  return count;
}

/* --- the text --- */

/* As much again as there is, at least. */
static char *lines_make_room(VALUE text) {
  long len = RSTRING_LEN(text);
  if ((long)rb_str_capacity(text) - len < AB_ROW_JSON_MAX)
    rb_str_modify_expand(text, len + AB_ROW_JSON_MAX);
  return RSTRING_PTR(text) + len;
}

/* Requests of a process that has ended meanwhile are no more. */
static void write_one(look *look, const ab_row_found *found, uint32_t claims) {
  ab_row row;
  char name[AB_PAGE_ROUTE_NAME];
  ab_page_parts parts = ab_page_parts_to_read(look->page, found->slot);
  if (!ab_row_look(found->row, &row, look->beside.waits) || claims_of(parts.slot) != claims) return;
  ab_row_beside beside = look->beside;
  beside.slot = found->slot;
  beside.worker = found->slot % look->numbers;
  beside.route = ab_page_route_of(&parts, row.route, name);
  rb_str_cat(look->text, ",", look->written > 0 ? 1 : 0);
  char *at = lines_make_room(look->text);
  at = look->brief ? ab_row_json_short(at, &row, &beside) : ab_row_json(at, &row, &beside);
  rb_str_set_len(look->text, at - RSTRING_PTR(look->text));
  look->written++;
}

static VALUE new_text(VALUE self) {
  VALUE mLine = rb_const_get(rb_obj_class(self), rb_intern("Line"));
  VALUE text = rb_class_new_instance(0, NULL, rb_const_get(mLine, rb_intern("Written")));
  rb_enc_associate(text, rb_utf8_encoding());
  return text;
}

/* call-seq: write_requests(most, numbers, brief, waits) -> Line::Written */
static VALUE page_write_requests(VALUE self, VALUE most, VALUE numbers, VALUE brief, VALUE waits) {
  VALUE rows_buffer, claims_buffer;
  look look = {.beside = {.now = ab_clock_monotonic(), .waits = RTEST(waits)},
               .numbers = NUM2UINT(numbers),
               .brief = RTEST(brief),
               .most = NUM2SIZET(most)};
  if (look.numbers == 0) rb_raise(rb_eArgError, "workers have numbers");
  look.text = new_text(self);
  look.page = ab__page_of(self);
  size_t room = room_of(look.page);
  ab_row_found *found = ALLOCV_N(ab_row_found, rows_buffer, room + 1);
  uint32_t *claims = ALLOCV_N(uint32_t, claims_buffer, ab_page_size(look.page));
  size_t count = find(found, room, claims, look.page);
  rb_str_cat(look.text, "[", 1);
  for (size_t i = 0; i < count && look.written < look.most; i++)
    write_one(&look, &found[i], claims[found[i].slot]);
  rb_str_cat(look.text, "]", 1);
  ALLOCV_END(rows_buffer);
  ALLOCV_END(claims_buffer);
  RB_GC_GUARD(self);
  RB_GC_GUARD(look.text);
  return look.text;
}

void ab_init_row_lines(VALUE mAbaca) {
  VALUE cPage = rb_const_get(mAbaca, rb_intern("Page"));
  rb_define_private_method(cPage, "write_requests", page_write_requests, 4);
}
