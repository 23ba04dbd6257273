#include "page/figures.h"

/* Relaxed: a figure tells of itself only. Its partner is the engine's plain store of an aligned
 * word that is no constant, which no compiler of ours tears. */
#define LOAD(name, offset, bytes) to.name = __atomic_load_n(&from->name, __ATOMIC_RELAXED);
#define ADD(name, offset, bytes)  sum->name += one->name;
#define TAKE(name, offset, bytes) figures->name -= before->name;
#define ZERO(name, offset, bytes) __atomic_store_n(&figures->name, 0, __ATOMIC_RELAXED);
#define SHOW(name, offset, bytes) __atomic_store_n(&figures->name, from->name, __ATOMIC_RELAXED);
#define FIGURES_NOTHING(name, offset, bytes)

static const int statuses[AB_FAULT_COUNT] = {
#define FAULT_STATUS(status) status,
    AB_FAULT_STATUSES(FAULT_STATUS)
#undef FAULT_STATUS
};

int ab_fault_status(enum ab_fault fault) {
  return statuses[fault];
}

void ab_figures_fault(ab_figures *figures, int status) {
  unsigned fault = 0;
  while (fault < AB_FAULT_OTHER && statuses[fault] != status) fault++;
  figures->errors++;
  figures->faults[fault]++;
}

const char *ab_rejection_name(enum ab_rejection why) {
  static const char *const names[AB_REJECT_COUNT] = {
#define REJECTION_TEXT(name, text) text,
      AB_REJECTIONS(REJECTION_TEXT)
#undef REJECTION_TEXT
  };
  return names[why];
}

ab_figures ab_figures_load(const ab_figures *from) {
  ab_figures to = {0};
  AB_FIGURES(LOAD, LOAD)
  return to;
}

void ab_figures_put_back(ab_figures *figures) {
  /* The words of a copy may be of different moments. */
  uint32_t in_app = figures->in_app, back = figures->for_thread;
  if (back > in_app) back = in_app;
  figures->in_app -= back;
  figures->waiting += back;
}

void ab_figures_add(ab_figures *sum, const ab_figures *one) {
  AB_FIGURES(ADD, ADD)
}

void ab_figures_since(ab_figures *figures, const ab_figures *before) {
  AB_FIGURES(TAKE, FIGURES_NOTHING)
}

void ab_figures_clear_now(ab_figures *figures) {
  AB_FIGURES(FIGURES_NOTHING, ZERO)
}

void ab_figures_show_now(ab_figures *figures, const ab_figures *from) {
  AB_FIGURES(FIGURES_NOTHING, SHOW)
}
