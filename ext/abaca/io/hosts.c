#include "io/hosts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BLANKS    " \t\r\n"
#define LINE_SIZE 4096 /* of a longer line, the rest is taken for another one */

/* An address, then names; a comment to the end. */
static bool line_has(char *line, const char *name) {
  char *rest;
  line[strcspn(line, "#")] = '\0';
  if (!strtok_r(line, BLANKS, &rest)) return false;
  for (const char *word; (word = strtok_r(NULL, BLANKS, &rest));)
    if (strcasecmp(word, name) == 0) return true;
  return false;
}

bool ab_hosts_list(const char *path, const char *name) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  char line[LINE_SIZE];
  bool found = false;
  for (size_t seen = 0; !found && seen < AB_HOSTS_MOST && fgets(line, sizeof line, file);) {
    seen += strlen(line) + 1;
    found = line_has(line, name);
  }
  fclose(file);
  return found;
}
