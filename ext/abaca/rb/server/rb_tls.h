/* Abaca::TLSContext, for the engine that gets one. */
#ifndef AB_RB_TLS_H
#define AB_RB_TLS_H

#include <ruby.h>

#include "tls/context.h"

/* The context of an Abaca::TLSContext; borrowed. Raises TypeError, RuntimeError. */
ab_tls_context *ab_tls_context_of(VALUE self);
/* Defines it, and Abaca::TLS_LIBRARY. */
void ab_init_tls(VALUE mAbaca);

#endif
