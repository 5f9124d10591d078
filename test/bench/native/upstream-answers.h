/* The answers of the mock upstream: whole bodies, and the events of a stream, which the model's name selects. */
#pragma once
#include "buffer.h"

enum { WORDS = 200, DIMENSIONS = 1536, PROMPT_TOKENS = 42, PAUSE_MS_MAX = 8000, MODEL_MAX = 127, SCRIPTS_MAX = 64 };
enum { STAMP_DIGITS = 16 };

/* The streamed answer of one model, prepared once; only its stamps are written anew for each request. */
struct script {
  char model[MODEL_MAX + 1];
  int chunks, per_write, pause_ms;
  /* The response's head and first event; the content; the last events without and with usage. */
  struct buffer start, content, end, end_with_usage;
  /* Offset of the stamp's digits in `content`, which is then one event. 0: `content` is all events, without stamps. */
  size_t stamp_at;
};

static struct script scripts[SCRIPTS_MAX];
static int scripts_count;

/* Bodies that do not depend on the request. */
static struct buffer whole_answer, base64_answer, float_answer, model_list;

static const char *word(int number) {
  static const char *const words[] = {"the ", "model ", "answers ", "with ", "tokens, ", "each ", "of ", "them ", "short. "};
  return words[(size_t)number % (sizeof words / sizeof *words)];
}

/* The value of a member of a JSON object; NULL if the object has no such member. */
static const char *member(const char *json, size_t length, const char *quoted_name) {
  const char *found = memmem(json, length, quoted_name, strlen(quoted_name));
  if (found == NULL) return NULL;
  found += strlen(quoted_name);
  while (*found == ' ' || *found == ':') found++;
  return found;
}

static int is_true(const char *json, size_t length, const char *quoted_name) {
  const char *value = member(json, length, quoted_name);
  return value != NULL && *value == 't';
}

/* Appends one SSE event as one HTTP chunk, as inference servers send it. */
static void append_event(struct buffer *to, const char *model, const char *choices, const char *usage) {
  static struct buffer event;
  event.length = 0;
  append_text(&event,
              "data: {\"id\":\"chatcmpl-mock0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
              "\"model\":\"%s\",\"system_fingerprint\":\"fp_mock\",\"choices\":[%s]%s}\n\n",
              model, choices, usage);
  append_text(to, "%zx\r\n", event.length);
  append(to, event.bytes, event.length);
  append(to, "\r\n", 2);
}

static void append_delta(struct buffer *to, const char *model, const char *delta, const char *finish) {
  char choice[WORDS * 16];
  snprintf(choice, sizeof choice, "{\"index\":0,\"delta\":{%s},\"logprobs\":null,\"finish_reason\":%s}", delta, finish);
  append_event(to, model, choice, "");
}

static void append_words(struct buffer *to, const char *model, int first, int end) {
  char delta[WORDS * 12] = "\"content\":\"";
  size_t length = strlen(delta);
  for (int i = first; i < end; i++) length += (size_t)sprintf(delta + length, "%s", word(i));
  sprintf(delta + length, "\"");
  append_delta(to, model, delta, "null");
}

static void build_script(struct script *script, int has_stamps) {
  const char *model = script->model;
  append_text(&script->start, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                              "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n");
  append_delta(&script->start, model, "\"role\":\"assistant\",\"content\":\"\"", "null");
  if (has_stamps) {
    append_delta(&script->content, model, "\"content\":\"t=0000000000000000 \"", "null");
    const char *stamp = memmem(script->content.bytes, script->content.length, "t=0000", 6);
    script->stamp_at = (size_t)(stamp - script->content.bytes) + strlen("t=");
  } else {
    for (int i = 0; i < script->chunks; i++) {
      append_words(&script->content, model, i * WORDS / script->chunks, (i + 1) * WORDS / script->chunks);
    }
  }
  int tokens = has_stamps ? script->chunks : WORDS;
  char usage[160];
  snprintf(usage, sizeof usage, ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}",
           PROMPT_TOKENS, tokens, PROMPT_TOKENS + tokens);
  struct buffer *const ends[] = {&script->end, &script->end_with_usage};
  for (int i = 0; i < 2; i++) {
    append_delta(ends[i], model, "", "\"stop\"");
    if (i == 1) append_event(ends[i], model, "", usage);
    append_text(ends[i], "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
  }
}

/*
 * The script of a model; NULL if its name has another form than these:
 *   text-C         200 words in C content chunks, without pauses
 *   stamps-C-W-P   C content chunks, W of them per write, P milliseconds between two writes. Each chunk contains "t=" and
 *                  CLOCK_MONOTONIC in nanoseconds as 16 hex digits, from which a client on this machine gets its transit time
 */
static const struct script *script_of(const char *model) {
  for (int i = 0; i < scripts_count; i++) {
    if (strcmp(scripts[i].model, model) == 0) return &scripts[i];
  }
  struct script script = {.per_write = WORDS};
  strcpy(script.model, model);
  int is_text = sscanf(model, "text-%d", &script.chunks) == 1;
  int is_valid = is_text ? script.chunks <= WORDS
                         : sscanf(model, "stamps-%d-%d-%d", &script.chunks, &script.per_write, &script.pause_ms) == 3;
  is_valid = is_valid && script.chunks >= 1 && script.per_write >= 1;
  is_valid = is_valid && script.pause_ms >= 0 && script.pause_ms <= PAUSE_MS_MAX && scripts_count < SCRIPTS_MAX;
  if (!is_valid) return NULL;
  build_script(&script, !is_text);
  scripts[scripts_count] = script;
  return &scripts[scripts_count++];
}

/* Appends the content for at most one write of a stream. Returns the number of chunks. */
static int append_content(struct buffer *to, const struct script *script, int done) {
  static const char digits[] = "0123456789abcdef";
  int rest = script->chunks - done, chunks = rest < script->per_write ? rest : script->per_write;
  if (script->stamp_at == 0) {
    append(to, script->content.bytes, script->content.length);
    return rest;
  }
  uint64_t stamp = now_ns();
  for (int i = 0; i < chunks; i++) {
    append(to, script->content.bytes, script->content.length);
    char *last = to->bytes + to->length - script->content.length + script->stamp_at + STAMP_DIGITS - 1;
    for (int digit = 0; digit < STAMP_DIGITS; digit++) *last-- = digits[stamp >> (4 * digit) & 15];
  }
  return chunks;
}

static void append_base64(struct buffer *to, const unsigned char *bytes, size_t length) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i + 2 < length; i += 3) {
    unsigned group = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];
    for (int shift = 18; shift >= 0; shift -= 6) append(to, &digits[group >> shift & 63], 1);
  }
}

/* The length of the vector in bytes is a multiple of three: its base64 has no padding. */
static void build_embeddings(void) {
  static const char start[] = "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":";
  static const char end[] = "}],\"model\":\"vector\",\"usage\":{\"prompt_tokens\":8,\"total_tokens\":8}}";
  float numbers[DIMENSIONS];
  unsigned random = 1;
  append_text(&float_answer, "%s[", start);
  for (int i = 0; i < DIMENSIONS; i++) {
    random = random * 1103515245 + 12345;
    numbers[i] = (float)((int)(random >> 8) % 100000000) / 1e9f - 0.05f;
    append_text(&float_answer, "%s%.9g", i == 0 ? "" : ",", (double)numbers[i]);
  }
  append_text(&float_answer, "]%s", end);
  append_text(&base64_answer, "%s\"", start);
  append_base64(&base64_answer, (const unsigned char *)numbers, sizeof numbers);
  append_text(&base64_answer, "\"%s", end);
}

/* `models`: names to list, up to a NULL. */
static void build_answers(char **models) {
  append_text(&whole_answer, "{\"id\":\"chatcmpl-mock0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1760000000,"
                             "\"model\":\"mock\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
  for (int i = 0; i < WORDS; i++) append_text(&whole_answer, "%s", word(i));
  append_text(&whole_answer,
              "\",\"refusal\":null,\"annotations\":[]},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{"
              "\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d},\"system_fingerprint\":\"fp_mock\"}",
              PROMPT_TOKENS, WORDS, PROMPT_TOKENS + WORDS);
  build_embeddings();
  append_text(&model_list, "{\"object\":\"list\",\"data\":[");
  for (char **model = models; *model != NULL; model++) {
    append_text(&model_list, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":1760000000,\"owned_by\":\"mock\"}",
                model == models ? "" : ",", *model);
  }
  append_text(&model_list, "]}");
}
