/* What the files of this room share. */
#ifndef AB_RB_PAGE_PARTS_H
#define AB_RB_PAGE_PARTS_H

#include "rb/page/rb_page.h"

typedef struct ab_rb_page {
  ab_page *page; /* NULL: closed */
  VALUE slots;   /* frozen Array */
} ab_rb_page;

/* Raises IOError when it is closed. */
ab_page *ab__page_of(VALUE page);
ab_page_time ab__page_now(void);

/* --- words of the page as Ruby's objects: rb_words.c --- */

VALUE ab__seconds(ab_nsec time);
/* From the monotonic clock to the wall clock. */
ab_nsec ab__clock_offset(VALUE slot);
VALUE ab__time(ab_nsec monotonic, ab_nsec offset);
/* "10.0.0.9", "10.0.0.9:5432", "[::1]:5432"; nil for an address that is none. */
VALUE ab__addr_text(const ab_addr *addr);
VALUE ab__addr_place(const ab_addr *addr);
/* A name that the page knows; "_OTHER" for the last number, nil for other numbers. */
VALUE ab__route_name(const ab_page_parts *parts, uint32_t number);

/* On the stack, so that they are marked. */
typedef struct ab__state_symbols {
  VALUE of[AB_STATE_COUNT];
} ab__state_symbols;

void ab__state_symbols_init(ab__state_symbols *symbols);
VALUE ab__state_symbol(enum ab_state state);
/* Seconds by state, those of 0 left out. */
VALUE ab__state_sums(const uint64_t sums[AB_STATE_COUNT]);

/* --- a slot: rb_slot.c --- */

/* To read. Raise IOError when the page is closed. */
ab_page_parts ab__slot_parts(VALUE slot);
ab_page *ab__slot_page(VALUE slot);
/* Raises Abaca::Error for the page of another server. */
void ab__slot_check_writable(VALUE slot);
const ab_page_head *ab__slot_head(VALUE slot);

/* Raises Abaca::Error unless this process has claimed it, IOError when the page is closed. */
void ab__slot_check_mine(VALUE slot);

/* What reads in it: rb_rows.c, rb_areas.c, rb_times.c. */
void ab__init_rows(VALUE cSlot);
void ab__init_areas(VALUE cSlot);
void ab__init_times(VALUE cPage, VALUE cSlot);

/* cPage: the page's class. */
VALUE ab__slot_new(VALUE cPage, VALUE page, uint32_t index);
void ab__init_slot(VALUE cPage);

#endif
