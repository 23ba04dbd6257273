/* The file of names that need no name server. */
#ifndef AB_IO_HOSTS_H
#define AB_IO_HOSTS_H

#include "base/base.h"

#define AB_HOSTS_FILE "/etc/hosts"

/* Whether a hosts file (hosts(5)) lists the name. Reads its first AB_HOSTS_MOST bytes, from the
 * page cache as a rule. False if it cannot be read. */
#define AB_HOSTS_MOST ((size_t)64 << 10)
bool ab_hosts_list(const char *path, const char *name);

#endif
