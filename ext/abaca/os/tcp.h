/* Options of TCP sockets. Where a system lacks one, nothing happens, unless its function says so.
 * Accepted sockets have those of their listener. */
#ifndef AB_OS_TCP_H
#define AB_OS_TCP_H

#include "base/base.h"

/* A connection is accepted when it has sent something, or not sent anything for a while. */
void ab_os_tcp_defer_accept(int fd, bool on);
/* Does the system hold back connections to this port for that reason? False if it does not tell. */
bool ab_os_tcp_holds_back(uint16_t port);
/* A descriptor is writable while fewer than `bytes` have not been sent. Where the system has no
 * such limit, its buffer has room for so many, and they include those that are on their way. */
void ab_os_tcp_keep_unsent_below(int fd, uint32_t bytes);
/* A peer that acknowledges nothing for as long is gone; 0: the system's own time. */
void ab_os_tcp_give_up_after(int fd, uint32_t seconds);
/* A connection that is quiet for `idle` seconds is probed, from then on each `interval`; 0 and 0:
 * it is not. */
void ab_os_tcp_probe(int fd, uint32_t idle, uint32_t interval);
/* Several sockets may listen on the port, and share its connections. Returns 0, or -1 with errno:
 * ENOPROTOOPT where the system has no such sockets. */
int ab_os_tcp_share_port(int fd) AB_WARN_UNUSED;

#endif
