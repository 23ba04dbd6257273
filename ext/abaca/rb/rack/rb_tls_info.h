/* What the env tells of TLS. */
#ifndef AB_RB_TLS_INFO_H
#define AB_RB_TLS_INFO_H

#include "rb/rack/rb_call.h"

/* An Abaca::TLSInfo, in a list of its server's as long as its connection may be open. */
typedef struct ab_tls_info ab_tls_info;

/* Adds abaca.tls and puma.peercert to the env of a request that came over TLS: the same objects for
 * all requests of a connection. Raises NoMemoryError. */
void ab_tls_info_add(ab_call *call);
void ab_tls_info_mark(const ab_list *infos);
/* The objects that the app still has go on without the server. */
void ab_tls_info_let_go(ab_list *infos);
/* Defines the class. */
void ab_init_tls_info(VALUE mAbaca);

#endif
