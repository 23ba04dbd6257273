/* What the application may know of a session: copied once, when it is first asked for, and true for
 * ever, also when the connection has ended. Counted. */
#ifndef AB_TLS_FACTS_H
#define AB_TLS_FACTS_H

#include "tls/session.h"

typedef struct ab_tls_facts ab_tls_facts;

/* Those of a session whose handshake is done, one count for the caller. The session's lock is held.
 * NULL without memory. */
ab_tls_facts *ab_tls_facts_hold(const ab_tls *tls);
/* One less; the last one frees them. Any thread. NULL is allowed. */
void ab_tls_facts_release(ab_tls_facts *facts);
/* True if nobody else has them: the session has ended. */
bool ab_tls_facts_alone(const ab_tls_facts *facts);

/* A caller that asked for them may keep a pointer here; NULL at first. The caller has to see to it
 * that one thread at a time does. */
void **ab_tls_facts_slot(ab_tls_facts *facts);

const char *ab_tls_facts_version(const ab_tls_facts *facts);
const char *ab_tls_facts_cipher(const ab_tls_facts *facts);
int ab_tls_facts_bits(const ab_tls_facts *facts);
/* NULL: none was chosen, or asked for. */
const char *ab_tls_facts_protocol(const ab_tls_facts *facts);
const char *ab_tls_facts_server_name(const ab_tls_facts *facts);
bool ab_tls_facts_resumed(const ab_tls_facts *facts);
long ab_tls_facts_verify_result(const ab_tls_facts *facts);
/* As DER, and its subject as RFC 4514 writes it; ptr NULL: there is none. */
ab_view ab_tls_facts_certificate(const ab_tls_facts *facts);
ab_view ab_tls_facts_subject(const ab_tls_facts *facts);

#endif
