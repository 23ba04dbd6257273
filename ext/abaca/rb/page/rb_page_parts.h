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

/* rb_slot.c. cPage: the page's class. */
VALUE ab__slot_new(VALUE cPage, VALUE page, uint32_t index);
void ab__init_slot(VALUE cPage);

#endif
