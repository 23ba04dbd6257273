#include "page/exemplars.h"

static unsigned bucket_of(ab_nsec time) {
  unsigned i = 0;
  while (i < AB_CELLS_PLAIN - 1 && time > ab_cells_plain_end(i)) i++;
  return i;
}

void ab_exemplars_note(ab_exemplars *self, const ab_row *row) {
  ab_nsec time = row->since - row->began;
  ab_exemplar *exemplar = &self->of[bucket_of(time)];
  ab_seq_open(&exemplar->seq);
  AB_PUT(exemplar->time, time);
  AB_PUT(exemplar->at, row->since);
  ab_words_put(exemplar->trace, row->trace, sizeof(exemplar->trace));
  uint64_t span;
  memcpy(&span, row->span, sizeof(span)); /* a row has it at no word's place */
  ab_words_put(exemplar->span, &span, sizeof(span));
  ab_seq_close(&exemplar->seq);
}

/* After its writer was killed in between, there is none until the next one is noted. */
static bool load(const ab_exemplar *exemplar, ab_exemplar *copy) {
  for (int i = 0; i < AB_SEQ_TRIES; i++) {
    uint32_t seq = ab_seq_begin(&exemplar->seq);
    ab_words_get(copy, exemplar, sizeof(*copy));
    if (ab_seq_holds(&exemplar->seq, seq)) return true;
  }
  return false;
}

void ab_exemplars_join(ab_exemplars *newest, const ab_exemplars *one) {
  ab_exemplar copy;
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++)
    if (AB_GET(one->of[i].at) > newest->of[i].at && load(&one->of[i], &copy)) newest->of[i] = copy;
}
