/* Pieces of JSON as text: whatever bytes a client has sent become a string, and numbers read as
 * Ruby's do. Each function writes at `at`, where there is as much room as its comment says, and
 * returns the end.
 */
#ifndef AB_BASE_JSON_H
#define AB_BASE_JSON_H

#include "base/base.h"

/* What stands for bytes that are no UTF-8: at most so long. */
#define AB_JSON_STAND_IN_MAX 6

/* The room that a text of so many bytes needs. Returns false if that does not fit. */
bool ab_json_text_room(size_t len, size_t *room) AB_WARN_UNUSED;
/* The text, quoted and escaped, as UTF-8: so is every character that moves a cursor, ends a line or
 * turns the direction of text. Bytes that are no UTF-8 become `stand_in`, one for each beginning of
 * a character, as the Unicode Standard has it (chapter 3, "maximal subparts"). */
char *ab_json_text(char *at, ab_view text, ab_view stand_in);

#define AB_JSON_NUMBER_MAX 32
char *ab_json_count(char *at, uint64_t count);

/* Fractions of up to so many billionths have 15 digits at most, so that each is one double, and no
 * shorter one is. */
#define AB_JSON_BILLIONTHS_MAX ((uint64_t)1000000000000000)
/* True if the value is the double of a whole number of billionths below that, but not -0.0: of
 * which one. */
bool ab_json_billionths(double value, uint64_t *billionths) AB_WARN_UNUSED;
/* So many billionths, fewer than that, as a fraction: the shortest text that reads as that double.
 * AB_JSON_NUMBER_MAX bytes. */
char *ab_json_fraction(char *at, uint64_t billionths);

#endif
