#include "rb/scheduler/rb_collected.h"

void ab__collected_look(ab_collected *collected) {
  collected->count = rb_gc_count();
  collected->total = (ab_nsec)rb_gc_stat(ID2SYM(rb_intern("time"))) * AB_NSEC_PER_MS;
}

ab_nsec ab__collected_part(ab_collected *collected, ab_nsec ran) {
  ab_nsec before = collected->total;
  ab__collected_look(collected);
  ab_nsec time = collected->total > before ? collected->total - before : 0;
  return time < ran ? time : ran;
}
