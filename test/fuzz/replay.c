/* Plays files through a fuzz target without libFuzzer, so that any compiler will do: each argument
 * is a file, or a folder whose files are played. */
#include <dirent.h>
#include <limits.h>

#include "fuzz.h"

static size_t played;

/* Its name goes out first: a target that fails ends the process. */
static void play_file(const char *path) {
  puts(path);
  fflush(stdout);
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  long size = ftell(file);
  uint8_t *bytes = size >= 0 ? malloc(size ? (size_t)size : 1) : NULL;
  rewind(file);
  if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
    perror(path);
    exit(1);
  }
  fclose(file);
  LLVMFuzzerTestOneInput(bytes, (size_t)size);
  free(bytes);
  played++;
}

static void play_folder(DIR *folder, const char *path) {
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
    play_file(name);
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    if (folder) {
      play_folder(folder, argv[i]);
      closedir(folder);
    } else {
      play_file(argv[i]);
    }
  }
  printf("%zu inputs\n", played);
  return played > 0 ? 0 : 1;
}
