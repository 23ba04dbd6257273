/* What a response's head says of its content and of its connection, and what stands around the
 * content: the one place that frames responses (RFC 9112 6, 7.1, 9.3, 9.6). */
#ifndef AB_HTTP1_RESPONSE_H
#define AB_HTTP1_RESPONSE_H

#include "http1/write.h"

/* How the content of a response is delimited. */
typedef struct ab_content {
  int status;
  uint64_t length; /* bytes, where it is declared or known */
  bool declared;   /* the application has given a Content-Length */
  bool known;      /* the application has given all of the content */
  bool coded;      /* the content comes in chunks that the application has made */
  bool trailers;   /* trailer fields shall follow */
  bool closes;     /* the application wants the connection closed; or only that ends the content */
  /* From ab_write_framing on: */
  bool none;       /* no content is sent, whatever the head says of it */
  bool has_length; /* it is as long as `length` says */
  bool chunked;    /* it goes in chunks of ours, and there is room for trailers */
} ab_content;

#define AB_FRAMING_MAX 40 /* bytes of the longest field that ab_write_framing writes */
/* Decides how the content is delimited, and writes the field that says so, if one has to. Returns
 * the end; needs AB_FRAMING_MAX bytes. */
char *ab_write_framing(char *dst, ab_content *content, bool answers_head, bool http_1_0);

/* How the connection goes on after a response. */
enum ab_write_connection {
  AB_WRITE_KEEP,        /* HTTP/1.1 keeps it without a word */
  AB_WRITE_KEEP_IN_1_0, /* "Connection: keep-alive" */
  AB_WRITE_CLOSE
};

#define AB_HEAD_END_MAX 26 /* bytes of the longest end of a head */
/* The end of a head: what becomes of the connection, and the empty line. Returns the end; needs
 * AB_HEAD_END_MAX bytes. */
char *ab_write_head_end(char *dst, enum ab_write_connection connection);
/* The end of a head that is interim or switches protocols: the empty line alone. */
char *ab_write_empty_line(char *dst);

/* "100 Continue", whole. */
#define AB_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* "1f4\r\n" before the content of a chunk, and what stands behind it. Returns the end; needs
 * AB_CHUNK_HEAD_MAX bytes; size > 0. */
#define AB_CHUNK_HEAD_MAX 18 /* 16 hexadecimal digits and CRLF */
char *ab_write_chunk_head(char *dst, uint64_t size);
#define AB_CHUNK_END "\r\n"
/* The last chunk; behind it stand the trailer's field lines, and behind these AB_CHUNK_END. */
#define AB_LAST_CHUNK "0\r\n"

#define AB_ERROR_MAX 512 /* bytes of the longest response of ab_write_error */
/* A whole response of the server's own, with the line `date`; as content "400 Bad Request\n",
 * unless it answers HEAD. Nothing that the peer sent comes back. 503 says when to try again.
 * Returns its end and sets *content to the bytes of content; needs AB_ERROR_MAX bytes. */
char *ab_write_error(char *dst, int status, ab_view date, enum ab_write_connection connection,
                     bool answers_head, size_t *content);

#endif
