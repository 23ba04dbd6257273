/* The life of a server's Rack side: made, told its options, marked and freed. */
#ifndef AB_RB_RACK_SETUP_H
#define AB_RB_RACK_SETUP_H

#include "rb/rack/rb_rack.h"

/* Of the engine object `self`, in memory that is zero. */
void ab_rack_init(ab_rack *rack, VALUE self);
/* Takes what Engine.new was given. Raises ArgumentError, TypeError, NoMemoryError. */
void ab_rack_configure(ab_rack *rack, VALUE app, VALUE options);
void ab_rack_mark(const ab_rack *rack);
/* All but the engine, which is freed before. */
void ab_rack_fini(ab_rack *rack);

/* A runner of the rack, without a thread yet. Returns AB_OK or AB_ENOMEM. */
int ab_runner_init(ab_runner *runner, ab_rack *rack, const ab_executor *executor) AB_WARN_UNUSED;
/* One that writes no response: it has no memory for heads. */
void ab_runner_init_bare(ab_runner *runner, ab_rack *rack, const ab_executor *executor);
void ab_runner_fini(ab_runner *runner);

#endif
