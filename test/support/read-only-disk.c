/*
 * Preloaded into a process, makes READ_ONLY_FOLDER read-only while the first byte of the file READ_ONLY_SWITCH is '1', also
 * for open files: like a file system that the kernel has remounted read-only after a fault. A test cannot use a real mount,
 * because the kernel refuses to remount a file system with files that are open for writing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const volatile char *is_on;
static const char *folder;

__attribute__((constructor)) static void open_switch(void) {
  const char *name = getenv("READ_ONLY_SWITCH");
  int file = name == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
  folder = getenv("READ_ONLY_FOLDER");
  if (file < 0 || folder == NULL) return;
  void *mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) is_on = mapped;
}

static int refuses_path(const char *path) {
  if (is_on == NULL || *is_on != '1' || path == NULL || strncmp(path, folder, strlen(folder)) != 0) return 0;
  errno = EROFS;
  return 1;
}

static int refuses_file(int fd) {
  char opened[64], path[4096];
  ssize_t length;
  if (is_on == NULL || *is_on != '1') return 0;
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
  length = readlink(opened, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return refuses_path(path);
}

static int open_unless_refused(int at, const char *path, int flags, mode_t mode) {
  int writes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
  if (writes && refuses_path(path)) return -1;
  return (int)syscall(SYS_openat, at, path, flags, mode);
}

#define MODE_OF(flags)                       \
  mode_t mode = 0;                           \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list rest;                            \
    va_start(rest, flags);                   \
    mode = va_arg(rest, mode_t);             \
    va_end(rest);                            \
  }

int open(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_unless_refused(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_unless_refused(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_unless_refused(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
  MODE_OF(flags)
  return open_unless_refused(at, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  return refuses_file(fd) ? -1 : syscall(SYS_write, fd, bytes, length);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  return refuses_file(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
  return refuses_file(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  return refuses_file(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}

int ftruncate(int fd, off_t length) {
  return refuses_file(fd) ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate64(int fd, off64_t length) {
  return refuses_file(fd) ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int unlink(const char *path) {
  return refuses_path(path) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int rename(const char *from, const char *to) {
  return refuses_path(to) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode) {
  return refuses_path(path) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
