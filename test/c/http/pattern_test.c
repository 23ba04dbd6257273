/* Patterns of paths: what matches and what does not, against a table and against a slow model. */
#include "check.h"

#include "http/pattern.h"

static ab_view view(const char *text) {
  return (ab_view){text, strlen(text)};
}

CHECK_CASE(table) {
  static const struct {
    const char *pattern, *path;
    bool matches;
  } cases[] = {
      {"/a", "/a", true},
      {"/a", "/b", false},
      {"/a", "/a/", false},
      {"/a", "/", false},
      {"/a", "/A", false},
      {"*", "/", true},
      {"*", "*", true},
      {"/*", "/", true},
      {"/*", "/a/b", true},
      {"/*", "*", false},
      {"/a/*", "/a", true},
      {"/a/*", "/a/", true},
      {"/a/*", "/a/b/c", true},
      {"/a/*", "/ab", false},
      {"/a/*", "/b/a/c", false},
      {"/a*", "/ab", true},
      {"*.pdf", "/a/b.pdf", true},
      {"*.pdf", "/a.pdf/b", false},
      {"/a/*/edit", "/a/1/edit", true},
      {"/a/*/edit", "/a/1/2/edit", true},
      {"/a/*/edit", "/a/edit", false},
      {"/a/*/b/*", "/a/x/b", true},
      {"/a/*/b/*", "/a/b/b/c", true},
      {"/*a*b*", "/xaybz", true},
      {"/*a*b*", "/xby", false},
      {"/a**", "/a", true},
      /* Percent-encoding does not hide a path, and what is no encoding stands for itself. */
      {"/admin/*", "/%61dmin/x", true},
      {"/admin/*", "/admin%2fx", true},
      {"/admin/*", "/admin%2Fx", true},
      {"/a%", "/a%", true},
      {"/a%4", "/a%4", true},
      {"/a%zz", "/a%zz", true},
      {"/a%4", "/a%41", false},
      {"/a*b", "/a%42b", true},
      {"/a*", "/%41", false},
      {"/\xc3\xa9", "/%C3%A9", true},
      {"", "/", false},
      {"/a", "/a%00", false},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    bool matches = ab_path_matches(view(cases[i].pattern), view(cases[i].path));
    if (matches != cases[i].matches) {
      fprintf(stderr, "%s against %s\n", cases[i].path, cases[i].pattern);
    }
    CHECK_INT(cases[i].matches, matches);
  }
}

/* Tries every length of every star. */
static bool model(const char *pattern, const char *path) {
  if (strcmp(pattern, "/*") == 0 && !*path) return true;
  if (!*pattern) return !*path;
  if (*pattern != '*') return *pattern == *path && model(pattern + 1, path + 1);
  for (const char *at = path;; at++) {
    if (model(pattern + 1, at)) return true;
    if (!*at) return false;
  }
}

/* Every short word of a small alphabet. */
static unsigned words(char (*list)[6], const char *alphabet) {
  unsigned count = 0, letters = (unsigned)strlen(alphabet);
  for (unsigned len = 1; len < 6; len++) {
    unsigned all = 1;
    for (unsigned i = 1; i < len; i++) all *= letters;
    for (unsigned n = 0; n < all; n++) {
      list[count][0] = '/';
      for (unsigned i = 1, rest = n; i < len; i++, rest /= letters) {
        list[count][i] = alphabet[rest % letters];
      }
      list[count++][len] = '\0';
    }
  }
  return count;
}

CHECK_CASE(agrees_with_the_model) {
  static char patterns[400][6], paths[400][6];
  unsigned pattern_count = words(patterns, "a/*"), path_count = words(paths, "a/");
  CHECK_INT(121, pattern_count);
  unsigned different = 0, matched = 0;
  for (unsigned i = 0; i < pattern_count; i++) {
    for (unsigned k = 0; k < path_count; k++) {
      bool expected = model(patterns[i], paths[k]);
      matched += expected;
      if (ab_path_matches(view(patterns[i]), view(paths[k])) == expected) continue;
      different++;
      fprintf(stderr, "%s against %s: model says %d\n", paths[k], patterns[i], expected);
    }
  }
  CHECK_INT(0, different);
  CHECK(matched > 500);
}

CHECK_CASE(the_first_rule_counts) {
  const ab_path_rule rules[] = {{view("/a/b"), 1}, {view("/a/*"), 2}, {view("/*"), 3}};
  CHECK_INT(1, ab_path_rule_find(rules, 3, view("/a/b"))->value);
  CHECK_INT(2, ab_path_rule_find(rules, 3, view("/a/c"))->value);
  CHECK_INT(3, ab_path_rule_find(rules, 3, view("/b"))->value);
  CHECK(!ab_path_rule_find(rules, 2, view("/b")));
  CHECK(!ab_path_rule_find(rules, 0, view("/b")));
}

CHECK_MAIN()
