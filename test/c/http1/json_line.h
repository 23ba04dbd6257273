/* Reads one line of test/cases/http1.jsonl: as much JSON as that file has (a flat object whose
 * strings are Latin-1). Anything else is reported as unreadable. */
#ifndef AB_TEST_HTTP1_JSON_LINE_H
#define AB_TEST_HTTP1_JSON_LINE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_case {
  char *id, *house, *conn, *raw, *body, *target;
  size_t raw_len, body_len, target_len;
  int responses; /* -1 when the case does not say */
  bool half_close, has_body, has_target;
} json_case;

static inline const char *json_blank(const char *ptr) {
  return ptr + strspn(ptr, " \t\r\n");
}

static inline int json_hex4(const char *ptr) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char digit[2] = {ptr[i], 0};
    if (!ptr[i] || !strchr("0123456789abcdefABCDEF", ptr[i])) return -1;
    value = value * 16 + (int)strtol(digit, NULL, 16);
  }
  return value;
}

/* One byte of a string; returns what is behind it, or NULL. */
static inline const char *json_byte(const char *ptr, char *byte) {
  static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  if (*ptr != '\\') {
    *byte = *ptr;
    return (signed char)*ptr > 0 ? ptr + 1 : NULL;
  }
  if (ptr[1] == 'u') {
    int value = json_hex4(ptr + 2);
    *byte = (char)value;
    return value >= 0 && value <= 0xff ? ptr + 6 : NULL;
  }
  for (const char *at = escapes; *at; at += 2) {
    if (*at != ptr[1]) continue;
    *byte = at[1];
    return ptr + 2;
  }
  return NULL;
}

/* A string; *text is NUL-terminated, to be freed. Returns what is behind it, or NULL. */
static inline const char *json_string(const char *ptr, char **text, size_t *len) {
  if (*ptr++ != '"') return NULL;
  *text = malloc(strlen(ptr) + 1);
  *len = 0;
  while (*text && ptr && *ptr && *ptr != '"') ptr = json_byte(ptr, &(*text)[(*len)++]);
  if (!*text || !ptr || *ptr != '"') {
    free(*text);
    *text = NULL;
    return NULL;
  }
  (*text)[*len] = 0;
  return ptr + 1;
}

/* Skips a value that is of no interest. */
static inline const char *json_skip(const char *ptr) {
  char *text = NULL;
  size_t len;
  ptr = json_blank(ptr);
  if (*ptr == '"') {
    ptr = json_string(ptr, &text, &len);
    free(text);
    return ptr;
  }
  if (*ptr != '[') return ptr + strcspn(ptr, ",]}");
  for (ptr = json_blank(ptr + 1); ptr && *ptr && *ptr != ']';) {
    ptr = json_skip(ptr);
    if (ptr) ptr = json_blank(ptr);
    if (ptr && *ptr == ',') ptr++;
  }
  return ptr && *ptr == ']' ? ptr + 1 : NULL;
}

/* [["text", times], ...] joined into the case's raw bytes. */
static inline const char *json_parts(const char *ptr, json_case *the) {
  if (*ptr != '[') return NULL;
  for (ptr = json_blank(ptr + 1); *ptr == '[';) {
    char *text, *behind;
    size_t len;
    ptr = json_string(json_blank(ptr + 1), &text, &len);
    if (!ptr) return NULL;
    ptr = json_blank(ptr);
    size_t times = *ptr == ',' ? strtoul(ptr + 1, &behind, 10) : 0;
    char *grown = times ? realloc(the->raw, the->raw_len + len * times + 1) : NULL;
    if (grown) the->raw = grown;
    for (size_t i = 0; grown && i < times; i++, the->raw_len += len) {
      memcpy(the->raw + the->raw_len, text, len);
    }
    free(text);
    if (!grown) return NULL;
    ptr = json_blank(behind);
    if (*ptr != ']') return NULL;
    ptr = json_blank(ptr + 1);
    if (*ptr == ',') ptr = json_blank(ptr + 1);
  }
  return *ptr == ']' ? ptr + 1 : NULL;
}

static inline const char *json_member(const char *ptr, const char *key, json_case *the) {
  size_t len;
  if (strcmp(key, "id") == 0) return json_string(ptr, &the->id, &len);
  if (strcmp(key, "house") == 0) return json_string(ptr, &the->house, &len);
  if (strcmp(key, "conn") == 0) return json_string(ptr, &the->conn, &len);
  if (strcmp(key, "raw") == 0) return json_string(ptr, &the->raw, &the->raw_len);
  if (strcmp(key, "parts") == 0) return json_parts(ptr, the);
  if (strcmp(key, "body") == 0) {
    the->has_body = true;
    return json_string(ptr, &the->body, &the->body_len);
  }
  if (strcmp(key, "target") == 0) {
    the->has_target = true;
    return json_string(ptr, &the->target, &the->target_len);
  }
  if (strcmp(key, "responses") == 0) the->responses = atoi(ptr);
  if (strcmp(key, "half_close") == 0) the->half_close = *ptr == 't';
  return json_skip(ptr);
}

static inline void json_case_free(json_case *the) {
  char *texts[] = {the->id, the->house, the->conn, the->raw, the->body, the->target};
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) free(texts[i]);
}

static inline bool json_case_read(json_case *the, const char *line) {
  *the = (json_case){.responses = -1};
  const char *ptr = json_blank(line);
  bool ok = *ptr == '{';
  while (ok && *ptr != '}') {
    char *key;
    size_t len;
    ptr = json_string(json_blank(ptr + 1), &key, &len);
    if (!ptr) break;
    ptr = json_blank(ptr);
    ptr = *ptr == ':' ? json_member(json_blank(ptr + 1), key, the) : NULL;
    free(key);
    if (!ptr) break;
    ptr = json_blank(ptr);
    ok = *ptr == ',' || *ptr == '}';
  }
  ok = ok && ptr && the->id && the->house && the->conn && the->raw;
  if (!ok) json_case_free(the);
  return ok;
}

#endif
