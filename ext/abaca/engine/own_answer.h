/* Requests that the engine answers itself. Internal to engine/. */
#ifndef AB_ENGINE_OWN_ANSWER_H
#define AB_ENGINE_OWN_ANSWER_H

#include "engine/conn.h"
#include "http/target.h"

/* Uses up the request at `in`, which has no exchange; `last`: the connection closes after it.
 * Returns what the response has to say of the connection. */
enum ab_write_connection ab__own_answer_begin(ab_conn *conn, const ab_head *head, bool last);
/* The response was queued, or could not be: `error`. */
void ab__own_answer_end(ab_conn *conn, enum ab_write_connection connection, int error);
/* Answers with the status alone. */
void ab__own_answer_status(ab_conn *conn, const ab_head *head, int status);

/* The host as certificates have it: in lower case, without the root's dot. Returns its length; 0:
 * it is no name. `name` has room for AB_HOST_MAX bytes. */
size_t ab__host_name(ab_view host, char *name);

/* Each answers the complete request at `in` if it is one of theirs; false for any other. */
bool ab__health_answer(ab_conn *conn, const ab_head *head);
bool ab__redirect_answer(ab_conn *conn, const ab_head *head);
bool ab__misdirected_answer(ab_conn *conn, const ab_head *head);

/* A listener came, or its TLS was swapped: which requests does the engine answer itself now? */
void ab__own_answer_learn(ab_engine *engine);

#endif
