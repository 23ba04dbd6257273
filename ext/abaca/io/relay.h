/* Messages with a descriptor, through a pair of sockets (ab_os_message_pair) that processes share:
 * what is sent at one end comes out at the other, whole and once, in whichever process asks first.
 * What nobody has taken stays there as long as any process has the pair. */
#ifndef AB_IO_RELAY_H
#define AB_IO_RELAY_H

#include <sys/uio.h>

#include "base/base.h"

/* Sends the parts as one message, with a copy of the descriptor. Returns AB_OK; AB_AGAIN: there is
 * no room now; AB_ELIMIT: there never is for one so long, or another error. Nothing is sent then.
 */
int ab_relay_send(int end, const struct iovec *iov, int count, int fd) AB_WARN_UNUSED;
/* Takes a message. Returns its length, with *fd, which is the caller's, or -1 if it came without;
 * AB_AGAIN: there is none; AB_ELIMIT: no descriptor is free, and it stays where it is; AB_EINVAL:
 * it was longer than `room`, and is gone. */
ssize_t ab_relay_receive(int end, char *buf, size_t room, int *fd) AB_WARN_UNUSED;

#endif
