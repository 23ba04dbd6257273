/* Native threads of our own. */
#ifndef AB_IO_THREAD_H
#define AB_IO_THREAD_H

#include <pthread.h>

#include "base/base.h"

/* The thread takes no signals: they are for the application's threads. Returns 0 or an errno. */
int ab_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg) AB_WARN_UNUSED;

#endif
