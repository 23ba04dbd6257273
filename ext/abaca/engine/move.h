/* A connection as a message to another worker, and back. Internal to engine/. All functions run
 * with the lock held. */
#ifndef AB_ENGINE_MOVE_H
#define AB_ENGINE_MOVE_H

#include "engine/conn.h"

/* Bytes of input that go along at most. */
#define AB_MOVE_INPUT 16384

/* True between two requests, and for a request without a body that waits to be taken. */
bool ab__conn_can_move(const ab_conn *conn);
/* Sends it through the relay. AB_OK: it is another worker's, and dropped here. Else it stays: as
 * ab_relay_send. */
int ab__conn_move(ab_conn *conn, int relay) AB_WARN_UNUSED;
/* Takes one from the relay, and serves it as far as it goes. AB_OK; AB_AGAIN: there is none;
 * AB_ENOMEM: there is no room in this step; AB_ELIMIT: there is no descriptor, or no memory;
 * AB_EINVAL: the message made no sense, and is gone. */
int ab__conn_adopt(ab_engine *engine, int relay) AB_WARN_UNUSED;

#endif
