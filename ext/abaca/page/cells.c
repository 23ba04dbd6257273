#include "page/cells.h"

/* The longest times of the cells: 2^(i/8) seconds for i from -112 to 56, cut off to nanoseconds,
 * and OpenTelemetry's bounds among them. test/c/page/cells_test.c counts them out. */
static const uint64_t bounds[AB_CELLS - 1] = {
    61035,       66559,       72583,        79152,        86316,       94129,       102648,
    111938,      122070,      133118,       145166,       158305,      172633,      188258,
    205296,      223877,      244140,       266237,       290333,      316611,      345266,
    376516,      410593,      447755,       488281,       532474,      580667,      633222,
    690533,      753032,      821187,       895511,       976562,      1064948,     1161335,
    1266444,     1381067,     1506065,      1642375,      1791023,     1953125,     2129897,
    2322670,     2532889,     2762135,      3012130,      3284751,     3582047,     3906250,
    4259795,     4645340,     5000000,      5065779,      5524271,     6024261,     6569503,
    7164094,     7812500,     8519591,      9290680,      10000000,    10131559,    11048543,
    12048522,    13139006,    14328188,     15625000,     17039183,    18581361,    20263118,
    22097086,    24097044,    25000000,     26278012,     28656376,    31250000,    34078366,
    37162722,    40526236,    44194173,     48194088,     50000000,    52556025,    57312752,
    62500000,    68156733,    74325444,     75000000,     81052472,    88388347,    96388176,
    100000000,   105112051,   114625505,    125000000,    136313466,   148650889,   162104944,
    176776695,   192776353,   210224103,    229251010,    250000000,   272626933,   297301778,
    324209888,   353553390,   385552706,    420448207,    458502021,   500000000,   545253866,
    594603557,   648419777,   707106781,    750000000,    771105412,   840896415,   917004043,
    1000000000,  1090507732,  1189207115,   1296839554,   1414213562,  1542210825,  1681792830,
    1834008086,  2000000000,  2181015465,   2378414230,   2500000000,  2593679109,  2828427124,
    3084421650,  3363585661,  3668016172,   4000000000,   4362030930,  4756828460,  5000000000,
    5187358218,  5656854249,  6168843301,   6727171322,   7336032345,  7500000000,  8000000000,
    8724061861,  9513656920,  10000000000,  10374716437,  11313708498, 12337686603, 13454342644,
    14672064691, 16000000000, 17448123722,  19027313840,  20749432874, 22627416997, 24675373206,
    26908685288, 29344129382, 32000000000,  34896247445,  38054627680, 41498865748, 45254833995,
    49350746413, 53817370576, 58688258765,  64000000000,  69792494890, 76109255360, 82997731497,
    90509667991, 98701492826, 107634741152, 117376517530, 128000000000};

/* How many bounds are less than 2^i nanoseconds. */
static const uint8_t first[37] = {0,  0,  0,   0,   0,   0,   0,   0,   0,   0,   0,  0,  0,
                                  0,  0,  0,   1,   9,   17,  25,  33,  41,  49,  58, 67, 76,
                                  85, 95, 103, 111, 120, 128, 137, 147, 156, 164, 172};

static const uint64_t plain[AB_CELLS_PLAIN - 1] = {
    5 * AB_NSEC_PER_MS,    10 * AB_NSEC_PER_MS,    25 * AB_NSEC_PER_MS,   50 * AB_NSEC_PER_MS,
    75 * AB_NSEC_PER_MS,   100 * AB_NSEC_PER_MS,   250 * AB_NSEC_PER_MS,  500 * AB_NSEC_PER_MS,
    750 * AB_NSEC_PER_MS,  1000 * AB_NSEC_PER_MS,  2500 * AB_NSEC_PER_MS, 5000 * AB_NSEC_PER_MS,
    7500 * AB_NSEC_PER_MS, 10000 * AB_NSEC_PER_MS,
};

/* Bounds lie closer in the lower part of an octave: of those in it, at least as many are below a
 * time as whole eighths of the octave are. */
unsigned ab_cells_find(ab_nsec time) {
  if (AB_UNLIKELY(time < 1u << 16)) return time > bounds[0];
  if (AB_UNLIKELY(time > bounds[AB_CELLS - 2])) return AB_CELLS - 1;
  unsigned octave = 63 - (unsigned)__builtin_clzll(time);
  unsigned cell = first[octave] + (unsigned)(time >> (octave - 3) & 7);
  while (bounds[cell] < time) cell++;
  return cell;
}

ab_nsec ab_cells_end(unsigned cell) {
  return cell < AB_CELLS - 1 ? bounds[cell] : UINT64_MAX;
}

ab_nsec ab_cells_plain_end(unsigned i) {
  return plain[i];
}

void ab_cells_join(ab_cells *sum, const ab_cells *one) {
  for (unsigned i = 0; i < AB_CELLS; i++) sum->counts[i] += AB_GET(one->counts[i]);
  sum->sum += AB_GET(one->sum);
}

void ab_cells_since(ab_cells *cells, const ab_cells *before) {
  for (unsigned i = 0; i < AB_CELLS; i++) cells->counts[i] -= before->counts[i];
  cells->sum -= before->sum;
}

uint64_t ab_cells_count(const ab_cells *cells) {
  uint64_t count = 0;
  for (unsigned i = 0; i < AB_CELLS; i++) count += cells->counts[i];
  return count;
}

ab_nsec ab_cells_rank(const ab_cells *cells, unsigned permille) {
  uint64_t count = ab_cells_count(cells);
  if (count == 0) return 0;
  /* Rounded up, without an overflow; at least the first one. */
  uint64_t rank = count / 1000 * permille + (count % 1000 * permille + 999) / 1000;
  if (rank == 0) rank = 1;
  unsigned cell = 0;
  for (uint64_t below = cells->counts[0]; below < rank && cell < AB_CELLS - 1;)
    below += cells->counts[++cell];
  return bounds[cell < AB_CELLS - 1 ? cell : AB_CELLS - 2];
}

/* A quarter, a half and a whole second are bounds of both. */
#define BOTH (1u << 6 | 1u << 7 | 1u << 9)

/* Does a bucket of the schema end there? `next` is the first of `plain` that is not less. */
static bool ends_fine(uint64_t bound, unsigned next) {
  return next == AB_CELLS_PLAIN - 1 || bound != plain[next] || BOTH & 1u << next;
}

ab_cells_view ab_cells_view_of(const ab_cells *cells) {
  ab_cells_view view = {.least = cells->counts[0], .most = cells->counts[AB_CELLS - 1]};
  unsigned coarse = 0, fine = 0;
  view.plain[0] = view.least;
  for (unsigned i = 1; i < AB_CELLS - 1; i++) {
    while (coarse < AB_CELLS_PLAIN - 1 && plain[coarse] < bounds[i]) coarse++;
    view.plain[coarse] += cells->counts[i];
    view.fine[fine] += cells->counts[i];
    if (ends_fine(bounds[i], coarse)) fine++;
  }
  view.plain[AB_CELLS_PLAIN - 1] += view.most;
  view.count = ab_cells_count(cells);
  return view;
}
