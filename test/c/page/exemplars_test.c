/* Exemplars: each bucket has its last one. */
#include "check.h"
#include "page/exemplars.h"

static ab_row row;

static void note(ab_exemplars *exemplars, ab_nsec began, ab_nsec time, uint8_t id) {
  ab_trace trace = {.trace = {id}, .span = {0, id}, .sampled = true};
  row.began = began;
  row.since = began + time;
  ab_row_set_trace(&row, &trace);
  ab_exemplars_note(exemplars, &row);
}

CHECK_CASE(each_bucket_has_its_last_one) {
  ab_exemplars some = {.of[0].at = 0}, all = some;
  note(&some, 100, 5 * AB_NSEC_PER_MS, 1); /* the bound is the bucket's */
  note(&some, 200, 5 * AB_NSEC_PER_MS + 1, 2);
  note(&some, 300, 4 * AB_NSEC_PER_MS, 3);
  note(&some, 400, 60 * AB_NSEC_PER_SEC, 4);
  ab_exemplars_join(&all, &some);
  CHECK_INT(3, all.of[0].trace[0]);
  CHECK_INT(3, all.of[0].span[1]);
  CHECK_INT(4 * AB_NSEC_PER_MS, all.of[0].time);
  CHECK_INT(300 + 4 * AB_NSEC_PER_MS, all.of[0].at);
  CHECK_INT(2, all.of[1].trace[0]);
  CHECK_INT(0, all.of[2].at);
  CHECK_INT(4, all.of[AB_CELLS_PLAIN - 1].trace[0]);
}

CHECK_CASE(the_newest_of_several) {
  ab_exemplars one = {.of[0].at = 0}, other = one, all = one;
  note(&one, 500, 7, 1);
  note(&other, 400, 7, 2);
  ab_exemplars_join(&all, &one);
  ab_exemplars_join(&all, &other);
  CHECK_INT(1, all.of[0].trace[0]);
}

CHECK_CASE(one_whose_writer_was_killed_is_none) {
  ab_exemplars one = {.of[0].at = 0}, all = one;
  note(&one, 500, 7, 1);
  ab_seq_open(&one.of[0].seq);
  ab_exemplars_join(&all, &one);
  CHECK_INT(0, all.of[0].at);
  note(&one, 600, 7, 2); /* the next process goes on */
  ab_exemplars_join(&all, &one);
  CHECK_INT(2, all.of[0].trace[0]);
}

CHECK_CASE(a_row_is_traced_while_its_trace_is_kept) {
  ab_trace trace = {.trace = {[15] = 1}};
  ab_row_set_trace(&row, &trace);
  CHECK(!ab_row_is_traced(&row));
  trace.sampled = true;
  ab_row_set_trace(&row, &trace);
  CHECK(ab_row_is_traced(&row));
  ab_words_clear(row.trace, sizeof(row.trace)); /* the next request */
  CHECK(!ab_row_is_traced(&row));
}

CHECK_MAIN()
