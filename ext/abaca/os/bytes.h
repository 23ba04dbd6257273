/* Bytes: found, forgotten, and made up. */
#ifndef AB_OS_BYTES_H
#define AB_OS_BYTES_H

#include "base/base.h"

/* The first place of `part`, of part_len bytes, in len bytes; NULL: none. */
const void *ab_os_find(const void *bytes, size_t len, const void *part, size_t part_len);
/* Fills them with 0, even if nothing reads them any more. */
void ab_os_wipe(void *bytes, size_t len);
/* Fills at most 256 bytes that nobody can guess. Early in the machine's boot there may be none:
 * then this waits, or, unless it `may_wait`, fails. False, with errno, if there are none. */
bool ab_os_random(void *bytes, size_t len, bool may_wait) AB_WARN_UNUSED;

#endif
