/* The way of one request through the app. */
#ifndef AB_RB_SERVE_H
#define AB_RB_SERVE_H

#include "rb/rack/rb_call.h"

/* A request that was taken from the engine. */
typedef struct ab_taken {
  ab_exchange *exchange; /* NULL: none was */
  ab_head_loan head;     /* until the env is built, while the step lasts */
  VALUE env;             /* Qnil until then */
  VALUE path;            /* then: PATH_INFO, if it is plain (rb_sight.h); else Qfalse */
  ab_route route;        /* if what it computes is to be measured */
  uint8_t level;         /* lead/level.h: what requests of its route usually compute */
  bool head_request, http_1_0;
} ab_taken;

/* For one that waits in memory of ours. */
static inline void ab_taken_mark(const ab_taken *taken) {
  rb_gc_mark(taken->env);
  rb_gc_mark(taken->path);
}

/* Builds the env of a request that has to outlive the step. Raises NoMemoryError. */
void ab_serve_keep(ab_runner *runner, ab_taken *taken);
/* Calls the app for the request, on the request's own fiber, and answers. `call`, of ab_call_take,
 * is the caller's to look at meanwhile; it is filled in and given back here. Raises only what
 * concerns the process, or kills. */
void ab_serve_request(ab_runner *runner, ab_taken *taken, ab_call *call);
/* Answers 503 without the app. */
void ab_serve_refuse(ab_runner *runner, ab_taken *taken, enum ab_rejection why);
/* The same for one that has waited, and does not count as begun (ab_engine_count_begun). */
void ab_serve_turn_away(ab_runner *runner, ab_taken *taken, enum ab_rejection why);

#endif
