/* What the files of rb/ use to tell a forked child. */
#ifndef AB_RB_FORK_H
#define AB_RB_FORK_H

#include "base/fork_page.h"

#endif
