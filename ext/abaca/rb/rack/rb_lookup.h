/* What Ruby's side is asked for, and told, by name. */
#ifndef AB_RB_LOOKUP_H
#define AB_RB_LOOKUP_H

#include <ruby.h>

#include "base/base.h"

/* An option by its name, or nil. */
static inline VALUE ab_option(VALUE options, const char *name) {
  return rb_hash_aref(options, ID2SYM(rb_intern(name)));
}

/* Adds to a Hash with Symbols for keys. */
static inline void ab_put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* A time in seconds, a Float. */
static inline VALUE ab_float_seconds(ab_nsec time) {
  return DBL2NUM((double)time / (double)AB_NSEC_PER_SEC);
}

/* A class of Abaca's. */
static inline VALUE ab_class(const char *name) {
  return rb_const_get(rb_path2class("Abaca"), rb_intern(name));
}

#endif
