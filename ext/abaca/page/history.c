#include "page/history.h"

void ab_history_over(ab_history *self, ab_history_record *seconds, uint32_t second_count,
                     ab_history_record *tens, uint32_t ten_count, const ab_history_totals *totals,
                     const ab_cells *requests) {
  *self = (ab_history){.seconds = seconds,
                       .second_count = second_count,
                       .tens = tens,
                       .ten_count = ten_count,
                       .totals = *totals,
                       .cells = *requests,
                       .ten_cells = *requests};
}

static uint32_t narrow(uint64_t value) {
  return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static uint32_t counted(uint64_t now, uint64_t before) {
  return narrow(now - before);
}

static uint32_t spent(uint64_t now, uint64_t before) {
  return narrow((now - before) / AB_NSEC_PER_MS);
}

static uint32_t rank(const ab_cells *cells, unsigned permille) {
  return narrow(ab_cells_rank(cells, permille) / 1000);
}

static void put_ranks(ab_history_values *values, const ab_cells *now, const ab_cells *before) {
  ab_cells since = *now;
  ab_cells_since(&since, before);
  values->p50 = rank(&since, 500);
  values->p95 = rank(&since, 950);
  values->p99 = rank(&since, 990);
}

static ab_history_values values_of(const ab_history *self, const ab_history_totals *now) {
  const ab_history_totals *before = &self->totals;
  return (ab_history_values){
      .requests = counted(now->requests, before->requests),
      .failed = counted(now->failed, before->failed),
      .in_app = now->in_app,
      .waiting = now->waiting,
      .connections = now->connections,
      .cpu = spent(now->cpu, before->cpu),
      .rss = now->rss,
      .run = spent(now->run, before->run),
      .db = spent(now->db, before->db),
      .pool = spent(now->pool, before->pool),
      .http = spent(now->http, before->http),
      .stalls = spent(now->stalls, before->stalls),
      .gc = spent(now->gc, before->gc),
  };
}

static void gather(ab_history_values *ten, const ab_history_values *second) {
#define SUM(name) ten->name = narrow((uint64_t)ten->name + second->name);
#define MOST(name)                                                                                 \
  if (second->name > ten->name) ten->name = second->name;
#define LAST(name) ten->name = second->name;
  AB_HISTORY(SUM, MOST, LAST)
#undef SUM
#undef MOST
#undef LAST
}

static void write_record(ab_history_record *records, uint32_t count, uint32_t tick,
                         const ab_history_values *values) {
  if (count == 0) return;
  ab_history_record *record = &records[tick % count];
  ab_seq_open(&record->seq);
  AB_PUT(record->tick, tick);
  ab_words_put(&record->values, values, sizeof(*values));
  ab_seq_close(&record->seq);
}

static void end_ten(ab_history *self) {
  put_ranks(&self->ten, &self->cells, &self->ten_cells);
  write_record(self->tens, self->ten_count, self->tick / 10, &self->ten);
  self->ten = (ab_history_values){0};
  self->ten_cells = self->cells;
}

void ab_history_tick(ab_history *self, ab_nsec now, const ab_history_totals *totals,
                     const ab_cells *requests) {
  uint32_t tick = ab_history_second(now);
  if (tick == self->tick) return; /* it stays for the next one */
  if (self->tick && tick / 10 != self->tick / 10) end_ten(self);
  ab_history_values values = values_of(self, totals);
  put_ranks(&values, requests, &self->cells);
  write_record(self->seconds, self->second_count, tick, &values);
  gather(&self->ten, &values);
  self->tick = tick;
  self->totals = *totals;
  self->cells = *requests;
}

bool ab_history_load(const ab_history_record *records, uint32_t count, uint32_t tick,
                     ab_history_record *copy) {
  if (count == 0 || tick == 0) return false;
  const ab_history_record *record = &records[tick % count];
  for (int i = 0; i < AB_SEQ_TRIES; i++) {
    uint32_t seq = ab_seq_begin(&record->seq);
    if (AB_GET(record->tick) != tick) return false;
    ab_words_get(copy, record, sizeof(*copy));
    if (ab_seq_holds(&record->seq, seq)) return copy->tick == tick;
  }
  return false;
}
