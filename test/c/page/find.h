/* The page of a process, found from outside, for programs that know layout.h only. */
#ifndef TEST_PAGE_FIND_H
#define TEST_PAGE_FIND_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "page/layout.h"

/* In memory, in a file that was removed, or in one of the folder for servers of a user's
 * (/tmp/abaca-UID). */
static inline bool is_page(const char *link) {
  static const char *const places[] = {"/memfd:" AB_PAGE_NAME, "/dev/shm/" AB_PAGE_NAME,
                                       "/tmp/abaca-"};
  char target[256];
  ssize_t len = readlink(link, target, sizeof target - 1);
  target[len > 0 ? len : 0] = 0;
  for (size_t i = 0; i < AB_ARRAY_LEN(places); i++)
    if (strncmp(target, places[i], strlen(places[i])) == 0) return true;
  return false;
}

static inline uint64_t made_at(int fd) {
  uint64_t time = 0;
  if (pread(fd, &time, sizeof time, offsetof(ab_page_head, made_at)) != sizeof time) return 0;
  return time;
}

/* Opened with the flags; of several the last that was made. -1: there is none, or no such process,
 * or it is another user's. */
static inline int find_page(const char *pid, int flags) {
  char folder[64], path[400];
  snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
  DIR *files = opendir(folder);
  int found = -1;
  for (const struct dirent *one; files && (one = readdir(files));) {
    snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
    int fd = is_page(path) ? open(path, flags) : -1;
    if (fd < 0) continue;
    bool later = found < 0 || made_at(fd) > made_at(found);
    int other = later ? found : fd;
    if (other >= 0) close(other);
    if (later) found = fd;
  }
  if (files) closedir(files);
  return found;
}

#endif
