/* Patterns of paths, for settings that apply to some requests only.
 *
 * A star stands for any bytes, slashes included; everything else for itself. A pattern that ends in
 * a slash and a star also matches the path without them. The path is matched as an application
 * reads it, with %41 for "A", so that no spelling gets around a setting; a pattern has no escapes.
 * Nothing is allocated; the time is at most that of path times pattern. */
#ifndef AB_HTTP_PATTERN_H
#define AB_HTTP_PATTERN_H

#include "base/base.h"

/* A pattern and what applies to the paths that it matches. */
typedef struct ab_path_rule {
  ab_view pattern; /* borrowed */
  uint64_t value;
} ab_path_rule;

/* True when the path, as received and without its query, is one of the pattern's. */
bool ab_path_matches(ab_view pattern, ab_view path);

/* The first of the rules that matches; NULL when none does. */
const ab_path_rule *ab_path_rule_find(const ab_path_rule *rules, size_t count, ab_view path);

#endif
