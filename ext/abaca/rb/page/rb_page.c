/* Abaca::Page: the memory that a master and its workers share. */
#include "rb/page/rb_page.h"

#include "io/timer.h"
#include "page/carry.h"
#include "rb/page/rb_page_parts.h"

static void page_mark(void *ptr) {
  rb_gc_mark(((ab_rb_page *)ptr)->slots);
}

static void page_free(void *ptr) {
  ab_rb_page *own = ptr;
  if (own->page) ab_page_drop(own->page);
  xfree(own);
}

static size_t page_size(const void *ptr) {
  return sizeof(*(const ab_rb_page *)ptr);
}

static const rb_data_type_t page_type = {
    .wrap_struct_name = "Abaca::Page",
    .function = {.dmark = page_mark, .dfree = page_free, .dsize = page_size},
};

ab_page *ab__page_of(VALUE self) {
  ab_rb_page *own = rb_check_typeddata(self, &page_type);
  if (!own->page) rb_raise(rb_eIOError, "the page is closed");
  return own->page;
}

ab_page_time ab__page_now(void) {
  return (ab_page_time){ab_clock_monotonic(), ab_clock_unix_nsec()};
}

static VALUE new_page(VALUE klass) {
  ab_rb_page *own;
  VALUE self = TypedData_Make_Struct(klass, ab_rb_page, &page_type, own);
  own->slots = rb_ary_new();
  return self;
}

static VALUE with_slots(VALUE self, VALUE klass) {
  const ab_rb_page *own = rb_check_typeddata(self, &page_type);
  uint32_t count = ab_page_size(own->page);
  for (uint32_t i = 0; i < count; i++) rb_ary_push(own->slots, ab__slot_new(klass, self, i));
  rb_obj_freeze(own->slots);
  return self;
}

/* call-seq: map(slots, rows, queued, path) -> Page
 *
 * Without a file if there can be none at `path`, or that is nil.
 * Raises SystemCallError, NoMemoryError. */
static VALUE page_map(VALUE klass, VALUE slots, VALUE rows, VALUE queued, VALUE path) {
  const ab_page_options options = {
      .slots = NUM2UINT(slots), .rows = NUM2UINT(rows), .queued = NUM2UINT(queued)};
  VALUE self = new_page(klass);
  ab_rb_page *own = rb_check_typeddata(self, &page_type);
  if (!NIL_P(path)) {
    own->page = ab_page_create_at(&ab_mem_libc, StringValueCStr(path), &options, ab__page_now());
  }
  if (!own->page) own->page = ab_page_create(&ab_mem_libc, &options, ab__page_now());
  if (!own->page) rb_sys_fail("cannot make the page that workers share");
  return with_slots(self, klass);
}

NORETURN(static void raise_unreadable(int error, uint32_t version));

static void raise_unreadable(int error, uint32_t version) {
  if (error == AB_ENOMEM) rb_memerror();
  if (error == AB_ESYS) rb_sys_fail("cannot read the page");
  VALUE class = rb_path2class("Abaca::Error");
  if (error == AB_EINVAL) rb_raise(class, "this is no page of Abaca's");
  rb_raise(class, "the page has layout %u, and this version of Abaca reads layout %u", version,
           AB_PAGE_VERSION);
}

/* call-seq: read(descriptor) -> Page
 *
 * That of another server, read only. Raises Abaca::Error, SystemCallError, NoMemoryError. */
static VALUE page_read(VALUE klass, VALUE descriptor) {
  int fd = NUM2INT(descriptor), error;
  uint32_t version;
  VALUE self = new_page(klass);
  ab_rb_page *own = rb_check_typeddata(self, &page_type);
  own->page = ab_page_open(&ab_mem_libc, fd, &error, &version);
  if (!own->page) raise_unreadable(error, version);
  return with_slots(self, klass);
}

/* call-seq: slots -> Array */
static VALUE page_slots(VALUE self) {
  ab__page_of(self);
  return ((ab_rb_page *)rb_check_typeddata(self, &page_type))->slots;
}

/* call-seq: sums -> Hash */
static VALUE page_sums(VALUE self) {
  ab_figures sums = ab_page_sums(ab__page_of(self));
  VALUE hash = rb_hash_new();
  ab_put_figures(hash, &sums);
  return hash;
}

/* call-seq: fileno -> Integer
 *
 * Of its memory, for the next program. Raises Abaca::Error for the page of another server. */
static VALUE page_fileno(VALUE self) {
  int fd = ab_page_fd(ab__page_of(self));
  if (fd < 0) rb_raise(rb_path2class("Abaca::Error"), "the page is another server's");
  return INT2NUM(fd);
}

/* call-seq: carry(descriptor) -> nil */
static VALUE page_carry(VALUE self, VALUE descriptor) {
  ab_page *page = ab__page_of(self);
  int fd = NUM2INT(descriptor), error;
  uint32_t version;
  ab_page *before = ab_page_open(&ab_mem_libc, fd, &error, &version);
  if (!before) raise_unreadable(error, version);
  ab_page_carry(page, before);
  ab_page_drop(before);
  return Qnil;
}

/* call-seq: close -> nil */
static VALUE page_close(VALUE self) {
  ab_rb_page *own = rb_check_typeddata(self, &page_type);
  ab_page *page = own->page;
  own->page = NULL;
  if (page) ab_page_drop(page);
  return Qnil;
}

/* call-seq: closed? -> true or false */
static VALUE page_closed(VALUE self) {
  return ((ab_rb_page *)rb_check_typeddata(self, &page_type))->page ? Qfalse : Qtrue;
}

void ab_init_page(VALUE mAbaca) {
  VALUE cPage = rb_define_class_under(mAbaca, "Page", rb_cObject);
  rb_undef_alloc_func(cPage);
  rb_define_singleton_method(cPage, "map", page_map, 4);
  rb_define_singleton_method(cPage, "read", page_read, 1);
  rb_define_method(cPage, "slots", page_slots, 0);
  rb_define_method(cPage, "sums", page_sums, 0);
  rb_define_method(cPage, "fileno", page_fileno, 0);
  rb_define_method(cPage, "carry", page_carry, 1);
  rb_define_method(cPage, "close", page_close, 0);
  rb_define_method(cPage, "closed?", page_closed, 0);
  ab__init_slot(cPage);
}
