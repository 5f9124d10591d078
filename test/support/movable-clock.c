/*
 * Preloaded into a process whose wall clock a test sets: it shows the real time plus an offset in seconds, a binary int64 in
 * the file that CLOCK_OFFSET_FILE names. All other clocks are unchanged. It reads the clock by system calls and allocates
 * nothing, because Redis's memory allocator reads the clock before anything else is initialized.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;

__attribute__((constructor)) static void open_offset(void) {
  const char *name = getenv("CLOCK_OFFSET_FILE");
  int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) offset_s = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  int is_wall_clock = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (failed == 0 && is_wall_clock && offset_s != NULL) now->tv_sec += *offset_s;
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec at;
  int failed = clock_gettime(CLOCK_REALTIME, &at);
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *now) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  if (now != NULL) *now = at.tv_sec;
  return at.tv_sec;
}
