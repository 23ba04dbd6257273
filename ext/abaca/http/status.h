/* The phrases of status codes. */
#ifndef AB_HTTP_STATUS_H
#define AB_HTTP_STATUS_H

/* The registered reason phrase, or "". */
const char *ab_status_phrase(int status);

#endif
