/*
 * A mock OpenAI-compatible server: HTTP/1.1 with keep-alive on 127.0.0.1, one thread, epoll. It costs little processor
 * time, so that a gateway in front of it is the bottleneck. Streams an answer if the request has "stream": true.
 *
 *   upstream MODEL...      prints {"port":N}; lists the models at /v1/models
 */
#include "upstream-answers.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_MAX = 1 << 20, READ_BYTES = 16384, EVENTS_PER_WAIT = 512, CONNECTIONS_WAITING_MAX = 4096 };
/* Paused streams are in a ring of lists, one per millisecond. */
enum { RING = 8192 };

struct connection {
  int fd;
  struct buffer in, out;
  size_t sent; /* Bytes of `out` that are sent. */
  int is_closed, is_blocked, is_streaming;
  /* State of the running stream. */
  const struct script *script;
  int chunks_done, has_usage;
  uint64_t due_ms;
  int is_paused;
  struct connection *next_paused;
};

static int epoll_fd, paused;
static uint64_t ring_ms;
static struct connection *ring[RING];

static void watch(struct connection *connection, int operation, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = connection};
  if (epoll_ctl(epoll_fd, operation, connection->fd, &event) != 0) fail("epoll_ctl");
}

/* Frees a closed connection, unless the ring refers to it. */
static void release(struct connection *connection) {
  if (!connection->is_closed || connection->is_paused) return;
  free(connection->in.bytes);
  free(connection->out.bytes);
  free(connection);
}

static void close_connection(struct connection *connection) {
  if (connection->is_closed) return;
  connection->is_closed = 1;
  close(connection->fd);
}

static void flush(struct connection *connection) {
  if (connection->is_closed || connection->out.length == 0) return;
  while (connection->sent < connection->out.length) {
    const char *rest = connection->out.bytes + connection->sent;
    ssize_t length = send(connection->fd, rest, connection->out.length - connection->sent, MSG_NOSIGNAL);
    if (length < 0) {
      if (errno != EAGAIN) close_connection(connection);
      else if (!connection->is_blocked) watch(connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
      connection->is_blocked = 1;
      return;
    }
    connection->sent += (size_t)length;
  }
  connection->out.length = connection->sent = 0;
  if (connection->is_blocked) watch(connection, EPOLL_CTL_MOD, EPOLLIN);
  connection->is_blocked = 0;
}

static void append_answer(struct connection *connection, const char *status, const struct buffer *body) {
  append_text(&connection->out, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", status,
              body->length);
  append(&connection->out, body->bytes, body->length);
}

static void append_error(struct connection *connection, const char *status, const char *message) {
  struct buffer body = {0};
  append_text(&body, "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\",\"code\":null}}", message);
  append_answer(connection, status, &body);
  free(body.bytes);
}

static void pause_stream(struct connection *connection) {
  connection->due_ms += (uint64_t)connection->script->pause_ms;
  uint64_t at_ms = connection->due_ms > ring_ms ? connection->due_ms : ring_ms + 1;
  connection->next_paused = ring[at_ms % RING];
  ring[at_ms % RING] = connection;
  connection->is_paused = 1;
  paused++;
}

/* Writes content until the next pause or the end. */
static void write_stream(struct connection *connection) {
  const struct script *script = connection->script;
  while (connection->is_streaming && !connection->is_closed) {
    connection->chunks_done += append_content(&connection->out, script, connection->chunks_done);
    if (connection->chunks_done == script->chunks) {
      const struct buffer *end = connection->has_usage ? &script->end_with_usage : &script->end;
      append(&connection->out, end->bytes, end->length);
      connection->is_streaming = 0;
    }
    flush(connection);
    if (connection->is_streaming && !connection->is_closed && script->pause_ms > 0) {
      pause_stream(connection);
      return;
    }
  }
}

static void answer_chat(struct connection *connection, const char *body, size_t length) {
  const char *model = member(body, length, "\"model\"");
  char name[MODEL_MAX + 1] = "";
  if (model != NULL) sscanf(model, "\"%127[^\"]\"", name);
  const struct script *script = script_of(name);
  if (script == NULL) {
    append_error(connection, "404 Not Found", "there is no such model");
  } else if (!is_true(body, length, "\"stream\"")) {
    append_answer(connection, "200 OK", &whole_answer);
  } else {
    connection->script = script;
    connection->has_usage = is_true(body, length, "\"include_usage\"");
    append(&connection->out, script->start.bytes, script->start.length);
    connection->is_streaming = 1;
    connection->chunks_done = 0;
    connection->due_ms = now_ns() / 1000000;
    write_stream(connection);
  }
}

static void answer(struct connection *connection, const char *head, const char *body, size_t length) {
  size_t line = strcspn(head, "\r");
  int is_get = strncmp(head, "GET ", 4) == 0;
  /* Some gateways send requests only to a server that reports its health. */
  if (is_get && (memmem(head, line, "/models ", 8) != NULL || memmem(head, line, "/health ", 8) != NULL)) {
    append_answer(connection, "200 OK", &model_list);
  } else if (memmem(head, line, "/embeddings ", 12) != NULL) {
    const char *format = member(body, length, "\"encoding_format\"");
    int is_base64 = format != NULL && strncmp(format, "\"base64\"", 8) == 0;
    append_answer(connection, "200 OK", is_base64 ? &base64_answer : &float_answer);
  } else if (memmem(head, line, "/chat/completions ", 18) != NULL) {
    answer_chat(connection, body, length);
  } else {
    append_error(connection, "404 Not Found", "there is no such path");
  }
}

/*
 * Joins the chunks of a body in place, up to its last, empty one, and sets `length` to the length of the content. Returns
 * the length of the chunks; 0 if more has to be received, and the body is unchanged. Trailers are not supported.
 */
static size_t join_chunks(char *body, size_t received, size_t *length) {
  size_t at = 0, size;
  for (int is_whole = 0;; is_whole = 1, at = 0) {
    *length = 0;
    do {
      const char *line_end = memmem(body + at, received - at, "\r\n", 2);
      if (line_end == NULL) return 0;
      size = strtoul(body + at, NULL, 16);
      at = (size_t)(line_end - body) + 2;
      if (size > REQUEST_MAX || received - at < size + 2) return 0;
      if (is_whole) memmove(body + *length, body + at, size);
      *length += size;
      at += size + 2;
    } while (size > 0);
    if (is_whole) return at;
  }
}

/* Answers the complete requests that were received. A request after a running stream waits for the stream's end. */
static void answer_received(struct connection *connection) {
  struct buffer *in = &connection->in;
  while (in->length > 0 && !connection->is_streaming && !connection->is_closed) {
    in->bytes[in->length] = 0;
    char *end = memmem(in->bytes, in->length, "\r\n\r\n", 4);
    if (end == NULL) break;
    size_t head = (size_t)(end - in->bytes) + 4;
    end[2] = 0;
    const char *length = strcasestr(in->bytes, "\ncontent-length:");
    int is_chunked = strcasestr(in->bytes, "\ntransfer-encoding:") != NULL;
    size_t taken = length == NULL ? 0 : strtoul(length + strlen("\ncontent-length:"), NULL, 10);
    size_t body = taken;
    end[2] = '\r';
    if (is_chunked) {
      taken = join_chunks(in->bytes + head, in->length - head, &body);
      if (taken == 0) break;
    } else if (in->length < head + body) {
      break;
    }
    answer(connection, in->bytes, in->bytes + head, body);
    in->length -= head + taken;
    memmove(in->bytes, in->bytes + head + taken, in->length);
  }
  flush(connection);
}

static void receive(struct connection *connection) {
  struct buffer *in = &connection->in;
  for (;;) {
    /* One additional byte for a NUL after the content. */
    reserve(in, READ_BYTES + 1);
    ssize_t length = recv(connection->fd, in->bytes + in->length, READ_BYTES, 0);
    if (length < 0 && errno == EAGAIN) break;
    if (length <= 0 || in->length > REQUEST_MAX) {
      close_connection(connection);
      return;
    }
    in->length += (size_t)length;
    if (length < READ_BYTES) break;
  }
  answer_received(connection);
}

static void accept_connections(int listener) {
  int fd, one = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) fail("memory");
    connection->fd = fd;
    watch(connection, EPOLL_CTL_ADD, EPOLLIN);
  }
  if (errno != EAGAIN && errno != ECONNABORTED) fail("accept");
}

static void resume_due_streams(void) {
  uint64_t now_ms = now_ns() / 1000000;
  while (ring_ms < now_ms) {
    ring_ms++;
    struct connection *connection = ring[ring_ms % RING];
    ring[ring_ms % RING] = NULL;
    while (connection != NULL) {
      struct connection *next = connection->next_paused;
      connection->is_paused = 0;
      paused--;
      write_stream(connection);
      if (!connection->is_streaming && !connection->is_closed) answer_received(connection);
      release(connection);
      connection = next;
    }
  }
}

static int listen_on_free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0) fail("bind");
  if (listen(listener, CONNECTIONS_WAITING_MAX) != 0) fail("listen");
  getsockname(listener, (struct sockaddr *)&address, &length);
  printf("{\"port\":%d}\n", ntohs(address.sin_port));
  fflush(stdout);
  return listener;
}

int main(int count, char **arguments) {
  (void)count;
  /* Ends with the process that started it. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  build_answers(arguments + 1);
  epoll_fd = epoll_create1(0);
  ring_ms = now_ns() / 1000000;
  struct connection listener = {.fd = listen_on_free_port()};
  watch(&listener, EPOLL_CTL_ADD, EPOLLIN);
  for (;;) {
    struct epoll_event events[EVENTS_PER_WAIT];
    int ready = epoll_wait(epoll_fd, events, EVENTS_PER_WAIT, paused > 0 ? 1 : -1);
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    /* Done first, because a stream that pauses is placed relative to the position in the ring. */
    resume_due_streams();
    for (int i = 0; i < ready; i++) {
      struct connection *connection = events[i].data.ptr;
      if (connection == &listener) {
        accept_connections(listener.fd);
        continue;
      }
      if (!connection->is_closed && (events[i].events & EPOLLOUT)) flush(connection);
      if (!connection->is_closed && (events[i].events & ~(uint32_t)EPOLLOUT)) receive(connection);
      release(connection);
    }
  }
}
