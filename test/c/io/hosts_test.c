/* Which names a hosts file lists. */
#include "io/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static char path[] = "/tmp/abaca-hosts-test-XXXXXX";

static FILE *make(void) {
  strcpy(path + sizeof(path) - 7, "XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  return fdopen(fd, "w");
}

static void make_with(const char *content) {
  FILE *file = make();
  fputs(content, file);
  fclose(file);
}

CHECK_CASE(lists_each_name_of_a_line) {
  make_with("127.0.0.1\tlocalhost\n"
            "::1 localhost  ip6-localhost\tip6-loopback\r\n"
            "  10.0.0.7 db.internal db # primary replica\n"
            "#10.0.0.8 retired\n"
            "\n"
            "10.0.0.9\n"
            "10.0.0.10 last");
  const char *listed[] = {"localhost", "ip6-localhost", "ip6-loopback", "db.internal",
                          "db",        "DB.Internal",   "last"};
  const char *others[] = {"127.0.0.1", "10.0.0.7", "10.0.0.9", "primary", "replica", "retired",
                          "#",         "internal", "d",        "db.",     "lastly",  ""};
  for (size_t i = 0; i < AB_ARRAY_LEN(listed); i++) CHECK(ab_hosts_list(path, listed[i]));
  for (size_t i = 0; i < AB_ARRAY_LEN(others); i++) CHECK(!ab_hosts_list(path, others[i]));
  unlink(path);
}

CHECK_CASE(no_file_lists_nothing) {
  make_with("");
  CHECK(!ab_hosts_list(path, "localhost"));
  unlink(path);
  CHECK(!ab_hosts_list(path, "localhost"));
  CHECK(!ab_hosts_list("/", "localhost"));
}

/* A line longer than any buffer, and bytes that are no text. */
CHECK_CASE(survives_what_is_no_hosts_file) {
  FILE *file = make();
  fputs("10.0.0.1", file);
  for (int i = 0; i < 3000; i++) fputs(" name", file);
  for (int i = 0; i < 9000; i++) fputc(i % 7, file);
  fputs("\n10.0.0.2 after\n", file);
  fclose(file);
  CHECK(ab_hosts_list(path, "name"));
  CHECK(ab_hosts_list(path, "after"));
  CHECK(!ab_hosts_list(path, "nobody"));
  unlink(path);
}

/* A loop reads it, with other requests behind. */
CHECK_CASE(a_long_file_is_read_in_part) {
  FILE *file = make();
  fputs("10.0.0.1 first\n", file);
  for (size_t i = 0; i < AB_HOSTS_MOST / 16; i++) fputs("10.0.0.2 some.01\n", file);
  fputs("10.0.0.3 behind\n", file);
  fclose(file);
  CHECK(ab_hosts_list(path, "first"));
  CHECK(!ab_hosts_list(path, "behind"));
  unlink(path);
}

CHECK_MAIN()
