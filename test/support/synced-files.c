/*
 * Preloaded into a process, keeps the content of its files that a power cut would leave: before each fsync or fdatasync the
 * whole file is copied to $SYNCED_FILES/<inode number>. The copy has no later writes, not even those over older content.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void copy_content(int from, int to) {
  /* On the heap, because thread-local storage of a preloaded library takes its size from the stack of every thread. */
  const size_t size = 1 << 16;
  char *buffer = malloc(size);
  off_t at = 0;
  ssize_t length;
  if (buffer == NULL) abort();
  while ((length = pread(from, buffer, size, at)) > 0) {
    if (write(to, buffer, length) != length) abort();
    at += length;
  }
  if (length < 0) abort();
  free(buffer);
}

static void keep(int fd) {
  const char *folder = getenv("SYNCED_FILES");
  struct stat status;
  char kept[4096], unfinished[4096], opened[64];
  int from, copy;
  if (folder == NULL || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  snprintf(kept, sizeof kept, "%s/%lu", folder, (unsigned long)status.st_ino);
  snprintf(unfinished, sizeof unfinished, "%s/%lu.unfinished", folder, (unsigned long)status.st_ino);
  /* Reads through a new descriptor, because the process's own may be write-only. */
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
  from = open(opened, O_RDONLY);
  if (from < 0) abort();
  copy = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (copy < 0) abort();
  copy_content(from, copy);
  close(from);
  close(copy);
  /* Renamed when complete, because the process may be killed at any instant. */
  if (rename(unfinished, kept) != 0) abort();
}

int fsync(int fd) {
  static int (*original)(int);
  if (original == NULL) original = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  keep(fd);
  return original(fd);
}

int fdatasync(int fd) {
  static int (*original)(int);
  if (original == NULL) original = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  keep(fd);
  return original(fd);
}
