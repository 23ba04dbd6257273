/* The row of a request that waits, in the page: admission.c takes it. */
#include "engine/conn.h"

void ab__exchange_hide(ab_exchange *exchange) {
  ab_rows *rows = exchange->conn->engine->rows;
  if (exchange->row && rows) ab_rows_give(rows, exchange->row);
  exchange->row = NULL;
}
