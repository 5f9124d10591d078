/* Code that the mock upstream and the load client share: a growing byte buffer and the monotonic clock. */
#pragma once
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A buffer whose fields are all zero is empty. */
struct buffer {
  char *bytes;
  size_t length, capacity;
};

static inline uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Ends the program after an error of the machine, such as no memory or no sockets. */
static inline void fail(const char *what) {
  perror(what);
  exit(1);
}

/* Makes room for `more` bytes after the content. */
static inline void reserve(struct buffer *to, size_t more) {
  if (to->length + more <= to->capacity) return;
  to->capacity = (to->length + more) * 2;
  to->bytes = realloc(to->bytes, to->capacity);
  if (to->bytes == NULL) fail("memory");
}

static inline void append(struct buffer *to, const char *bytes, size_t length) {
  reserve(to, length);
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

/* Appends formatted text of any length. */
__attribute__((format(printf, 2, 3))) static inline void append_text(struct buffer *to, const char *format, ...) {
  va_list values;
  va_start(values, format);
  size_t length = (size_t)vsnprintf(NULL, 0, format, values);
  va_end(values);
  reserve(to, length + 1);
  va_start(values, format);
  vsnprintf(to->bytes + to->length, length + 1, format, values);
  va_end(values);
  to->length += length;
}
