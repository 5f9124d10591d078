/*
 * Load client: one thread, epoll, closed loop. Each connection repeats one prepared request as soon as its answer has ended.
 *
 *   load-client PORT CONNECTIONS RAMP_SECONDS WARM_UP_SECONDS SECONDS STAMPS REQUEST_FILE
 *
 * The connections are opened evenly over the ramp. Counted are answers that end, and chunks that arrive, in the SECONDS after
 * the warm-up, which begins after the ramp; then running answers may end. A failure is an answer with another status than
 * 200, a connection that breaks within an answer and, if STAMPS is not 0, a stream without [DONE] or with another number of
 * stamps. A stamp is "t=" and 16 hex digits of CLOCK_MONOTONIC, which give the transit time of a chunk; 0 means no time.
 *
 * Prints one line of JSON. The first failure is described on stderr.
 */
#include "buffer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18, EVENTS_PER_WAIT = 1024, HEAD_MAX = 16384, TAIL = 14, STAMP_DIGITS = 16 };
/* Time for running answers to end, which is the longest silence allowed in a stream. */
static const uint64_t drain_ns = 30000000000u;
static const char done[TAIL + 1] = "data: [DONE]\n\n";

enum part { IDLE, HEAD, BODY, CHUNK_SIZE, CHUNK, CHUNK_END, LAST_CHUNK_END };

struct connection {
  int fd, status, has_first, closes;
  enum part part;
  uint64_t started_ns;
  struct buffer head;
  size_t left;       /* Remaining bytes of a body with a length, or of an HTTP chunk. */
  int line_length;   /* Length so far of the line that may end the chunks. */
  int stamps, digit; /* Number of stamps; digits of the current stamp that are still to come. */
  uint64_t stamp;
  char tail[TAIL];
};

struct samples {
  uint64_t *values;
  size_t length, capacity;
};

static struct sockaddr_in address = {.sin_family = AF_INET};
static struct buffer request;
static int epoll_fd, stamps_expected, open_answers, open_answers_max;
static uint64_t counted_from_ns, counted_until_ns, answers, chunks, bytes, failures;
static struct samples latency, transit, first;

static void add(struct samples *to, uint64_t value) {
  if (to->length == to->capacity) {
    to->capacity = to->capacity == 0 ? 65536 : to->capacity * 2;
    to->values = realloc(to->values, to->capacity * sizeof *to->values);
    if (to->values == NULL) fail("memory");
  }
  to->values[to->length++] = value;
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* The quantile in microseconds; -1 without samples. The samples must be sorted. */
static double quantile(const struct samples *of, double share) {
  if (of->length == 0) return -1;
  size_t at = (size_t)((double)of->length * share);
  return (double)of->values[at < of->length ? at : of->length - 1] / 1000;
}

static int is_counted(uint64_t at_ns) { return at_ns >= counted_from_ns && at_ns <= counted_until_ns; }

static void count_failure(const struct connection *connection, const char *what) {
  if (failures++ > 0) return;
  size_t length = connection->head.length < 600 ? connection->head.length : 600;
  fprintf(stderr, "first failed answer: %s, status %d, %d stamps\n%.*s\n", what, connection->status, connection->stamps,
          (int)length, length == 0 ? "" : connection->head.bytes);
}

static void open_connection(struct connection *connection) {
  int one = 1;
  connection->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connection->fd < 0) fail("socket");
  setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0) fail("epoll_ctl");
}

/* Sends the request, which is smaller than the buffer of a socket and so is sent as a whole. */
static void send_request(struct connection *connection) {
  connection->part = HEAD;
  connection->head.length = 0;
  connection->status = connection->has_first = connection->closes = 0;
  connection->stamps = connection->digit = 0;
  memset(connection->tail, 0, TAIL);
  connection->started_ns = now_ns();
  open_answers++;
  if (open_answers > open_answers_max) open_answers_max = open_answers;
  if (send(connection->fd, request.bytes, request.length, MSG_NOSIGNAL) != (ssize_t)request.length) {
    /* The server has closed the idle connection, which is not a failed answer. */
    close(connection->fd);
    open_connection(connection);
    if (send(connection->fd, request.bytes, request.length, MSG_NOSIGNAL) != (ssize_t)request.length) fail("send");
  }
}

static void next_request(struct connection *connection, uint64_t at_ns) {
  connection->part = IDLE;
  open_answers--;
  if (at_ns >= counted_until_ns) return;
  if (connection->closes) {
    close(connection->fd);
    open_connection(connection);
  }
  send_request(connection);
}

static void end_answer(struct connection *connection, uint64_t at_ns) {
  if (connection->status != 200) count_failure(connection, "not 200");
  else if (stamps_expected > 0 && connection->stamps != stamps_expected) count_failure(connection, "wrong number of stamps");
  else if (stamps_expected > 0 && memcmp(connection->tail, done, TAIL) != 0) count_failure(connection, "no [DONE]");
  else if (is_counted(at_ns) && connection->started_ns >= counted_from_ns) add(&latency, at_ns - connection->started_ns);
  if (is_counted(at_ns)) answers++;
  next_request(connection, at_ns);
}

/* Reads stamps and the end of a stream. Only stamps contain a "=". */
static void read_content(struct connection *connection, const char *from, size_t length, uint64_t at_ns) {
  if (connection->status != 200) append(&connection->head, from, length < 300 ? length : 300);
  if (stamps_expected == 0) return;
  const char *at = from, *end = from + length;
  while (at < end) {
    if (connection->digit == 0) {
      at = memchr(at, '=', (size_t)(end - at));
      if (at == NULL) break;
      at++;
      connection->digit = STAMP_DIGITS;
      connection->stamp = 0;
    }
    for (; at < end && connection->digit > 0; at++, connection->digit--) {
      connection->stamp = connection->stamp << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    }
    if (connection->digit > 0) break;
    connection->stamps++;
    if (connection->stamps == 1 && is_counted(connection->started_ns)) add(&first, at_ns - connection->started_ns);
    if (!is_counted(at_ns)) continue;
    chunks++;
    if (connection->stamp > 0) add(&transit, at_ns - connection->stamp);
  }
  size_t kept = length < TAIL ? TAIL - length : 0;
  memmove(connection->tail, connection->tail + TAIL - kept, kept);
  memcpy(connection->tail + kept, end - (TAIL - kept), TAIL - kept);
}

static void read_head(struct connection *connection) {
  struct buffer *head = &connection->head;
  head->bytes[head->length - 1] = 0;
  sscanf(head->bytes, "HTTP/1.1 %d", &connection->status);
  const char *length = strcasestr(head->bytes, "\ncontent-length:");
  connection->closes = strcasestr(head->bytes, "\nconnection: close") != NULL;
  connection->part = length == NULL ? CHUNK_SIZE : BODY;
  connection->left = length == NULL ? 0 : strtoul(length + strlen("\ncontent-length:"), NULL, 10);
  head->bytes[head->length - 1] = '\n';
}

/* Parses the received bytes of one answer: a head, then a body with a length or in HTTP chunks. */
static void take(struct connection *connection, const char *at, size_t length, uint64_t at_ns) {
  const char *end = at + length;
  while (at < end && connection->part != IDLE) {
    size_t there = (size_t)(end - at);
    if (connection->part == BODY || connection->part == CHUNK) {
      size_t taken = there < connection->left ? there : connection->left;
      read_content(connection, at, taken, at_ns);
      at += taken;
      connection->left -= taken;
      if (connection->left > 0) return;
      if (connection->part == CHUNK) connection->part = CHUNK_END;
      else end_answer(connection, at_ns);
      continue;
    }
    char byte = *at++;
    switch (connection->part) {
      case HEAD:
        append(&connection->head, &byte, 1);
        if (byte == '\n' && connection->head.length >= 4 &&
            memcmp(connection->head.bytes + connection->head.length - 4, "\r\n\r\n", 4) == 0) {
          read_head(connection);
          if (connection->part == BODY && connection->left == 0) end_answer(connection, at_ns);
        }
        break;
      case CHUNK_SIZE:
        if (byte == '\n') {
          connection->part = connection->left == 0 ? LAST_CHUNK_END : CHUNK;
          connection->line_length = 0;
        } else if (byte != '\r') {
          connection->left = connection->left << 4 | (size_t)(byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10);
        }
        break;
      case CHUNK_END:
        if (byte == '\n') connection->part = CHUNK_SIZE;
        break;
      case LAST_CHUNK_END:
        /* Trailers may come before the empty line. */
        if (byte == '\n' && connection->line_length == 0) end_answer(connection, at_ns);
        else connection->line_length = byte == '\n' ? 0 : connection->line_length + (byte != '\r');
        break;
      default:
        break;
    }
  }
}

static void receive(struct connection *connection) {
  static char received[READ_BYTES];
  ssize_t length = recv(connection->fd, received, sizeof received, MSG_DONTWAIT);
  uint64_t at_ns = now_ns();
  if (length > 0) {
    if (is_counted(at_ns)) bytes += (uint64_t)length;
    take(connection, received, (size_t)length, at_ns);
    return;
  }
  if (length < 0 && errno == EAGAIN) return;
  close(connection->fd);
  if (connection->part == IDLE) return;
  count_failure(connection, "the connection broke");
  open_connection(connection);
  next_request(connection, at_ns);
}

static void read_request(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) fail(path);
  reserve(&request, 65536);
  request.length = fread(request.bytes, 1, 65536, file);
  fclose(file);
}

static void print_result(double seconds) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  struct samples *all[] = {&latency, &first, &transit};
  for (size_t i = 0; i < 3; i++) {
    if (all[i]->length > 0) qsort(all[i]->values, all[i]->length, sizeof *all[i]->values, ascending);
  }
  double cpu_ms = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
                  (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
  printf("{\"answers\":%llu,\"chunks\":%llu,\"bytes\":%llu,\"failures\":%llu,\"seconds\":%.3f,\"cpuMs\":%.1f,\"openMax\":%d,"
         "\"latencyUs\":{\"p50\":%.1f,\"p99\":%.1f},\"firstChunkUs\":{\"p50\":%.1f,\"p99\":%.1f},"
         "\"transitUs\":{\"p50\":%.1f,\"p99\":%.1f}}\n",
         (unsigned long long)answers, (unsigned long long)chunks, (unsigned long long)bytes, (unsigned long long)failures,
         seconds, cpu_ms, open_answers_max, quantile(&latency, .5), quantile(&latency, .99), quantile(&first, .5),
         quantile(&first, .99), quantile(&transit, .5), quantile(&transit, .99));
}

int main(int count, char **arguments) {
  if (count != 8) {
    fprintf(stderr, "usage: load-client PORT CONNECTIONS RAMP_SECONDS WARM_UP_SECONDS SECONDS STAMPS REQUEST_FILE\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int connections = atoi(arguments[2]), opened = 0;
  double ramp = atof(arguments[3]), warm_up = atof(arguments[4]), seconds = atof(arguments[5]);
  stamps_expected = atoi(arguments[6]);
  read_request(arguments[7]);
  address.sin_port = htons((uint16_t)atoi(arguments[1]));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  epoll_fd = epoll_create1(0);
  struct connection *all = calloc((size_t)connections, sizeof *all);
  if (all == NULL) fail("memory");
  uint64_t started_ns = now_ns();
  counted_from_ns = started_ns + (uint64_t)((ramp + warm_up) * 1e9);
  counted_until_ns = counted_from_ns + (uint64_t)(seconds * 1e9);
  for (uint64_t now = started_ns; now < counted_until_ns || open_answers > 0; now = now_ns()) {
    if (now > counted_until_ns + drain_ns) {
      for (int i = 0; i < opened; i++) if (all[i].part != IDLE) count_failure(&all[i], "the answer did not end");
      break;
    }
    while (opened < connections && (double)(now - started_ns) >= ramp * 1e9 * opened / connections) {
      open_connection(&all[opened]);
      send_request(&all[opened++]);
    }
    struct epoll_event events[EVENTS_PER_WAIT];
    int ready = epoll_wait(epoll_fd, events, EVENTS_PER_WAIT, opened < connections ? 1 : 50);
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < ready; i++) receive(events[i].data.ptr);
  }
  print_result(seconds);
}
