import { describe, expect, it } from "vitest";
import { serviceErrorOf } from "../../../../src/domain/engine/engine-error.js";
import {
  engineErrorOf,
  type FailedRequest,
  retryAfterMs,
} from "../../../../src/engines/openai/protocol/upstream-failure.js";
import { recordedAnswer } from "../../../support/upstream/recorded-answers.js";

const nowMs = Date.UTC(2026, 0, 1);
const request: FailedRequest = {
  promptParam: "messages",
  contextLength: null,
  keys: ["secret-key-1"],
  promptText: () => "my CANARY-prompt-7 text",
};

function errorOf(status: number, body: string | object, headers: Record<string, string> = {}, of = request) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return engineErrorOf({ status, headers, body: text }, of, nowMs);
}

function recorded(name: string, of = request) {
  const { status, headers, body } = recordedAnswer(name);
  return engineErrorOf({ status, headers, body: body.toString() }, of, nowMs);
}

const causeOf = (error: Error): string => (error.cause instanceof Error ? error.cause.message : "");

describe("conversion of errors of upstream servers to EngineError", () => {
  it.each([
    [400, "bad_input", "invalid_value"],
    [413, "bad_input", "invalid_value"],
    [422, "bad_input", "invalid_value"],
    [401, "unauthorized", "upstream_unauthorized"],
    [403, "forbidden", "upstream_unauthorized"],
    [404, "upstream_error", "upstream_error"],
    [405, "upstream_error", "upstream_error"],
    [409, "upstream_error", "upstream_error"],
    [408, "timeout", "upstream_timeout"],
    [429, "rate_limited", "upstream_rate_limited"],
    [500, "upstream_error", "upstream_error"],
    [501, "upstream_error", "upstream_error"],
    [502, "upstream_error", "upstream_error"],
    [503, "overloaded", "server_is_overloaded"],
    [504, "timeout", "upstream_timeout"],
    [529, "overloaded", "server_is_overloaded"],
    [302, "upstream_error", "upstream_error"],
    [204, "upstream_error", "upstream_error"],
  ])("%i becomes %s, which clients see as %s (ERR-28)", (status, code, publicCode) => {
    for (const body of [{ error: { message: "no" } }, "no", "<html><title>no</title></html>", ""]) {
      const error = errorOf(status, body);
      expect(error.code).toBe(code);
      expect(serviceErrorOf(error).code).toBe(publicCode);
    }
  });

  it.each([
    ["llama-server/err-bad-json", "bad_input", null, "parse error at line 1"],
    ["llama-server/err-context-overflow", "context_overflow", "messages", "maximum context length is 2048 tokens"],
    ["llama-server/chat-image", "bad_input", null, "image input is not supported"],
    ["llama-server/emb-too-long", "context_overflow", "messages", "too large to process"],
    ["llama-server/chat-json-schema-bad", "bad_input", null, "JSON schema error"],
    ["llama-server-loading/chat-stream-usage", "model_loading", null, "503"],
    ["llama-server-jinja-key/err-auth-wrong", "unauthorized", null, "401"],
    ["vllm-cpu/err-auth-wrong", "unauthorized", null, "401"],
    ["vllm-cpu/err-method", "upstream_error", null, "405"],
    ["vllm-cpu/err-unknown-model", "upstream_error", null, "404"],
    ["vllm-cpu/err-range-temperature", "bad_input", "temperature", "temperature must be in [0, 2], got 5.0."],
    ["vllm-cpu/err-context-overflow", "context_overflow", "messages", "maximum context length is 2048 tokens"],
    ["vllm-cpu/err-type-temperature", "bad_input", "temperature", "valid number"],
    ["vllm-cpu/err-no-messages", "bad_input", "messages", "Field required"],
    ["vllm-cpu/chat-json-schema-bad", "bad_input", null, "Grammar error"],
    ["ray-serve/err-bad-json", "upstream_error", null, "500"],
    ["ray-serve/err-method", "upstream_error", null, "405"],
  ])("converts the recorded error %s to %s with param %s", (name, code, param, text) => {
    const error = recorded(name);
    expect(error).toMatchObject({ code, param });
    expect(error.message).toContain(text);
  });

  it("adds the model's context length to a message that does not state it (ERR-26)", () => {
    const error = recorded("llama-server/emb-too-long", { ...request, promptParam: "input[1]", contextLength: 512 });
    expect(error).toMatchObject({ code: "context_overflow", param: "input[1]" });
    expect(error.message).toContain("maximum context length is 512 tokens, but the prompt has 3002 tokens");
  });

  it.each([
    ["a string", { error: "temperature is bad" }, null],
    ["an object", { error: { message: "temperature is bad", param: "temperature", code: 400 } }, "temperature"],
    ["a list", [{ error: { message: "temperature is bad", code: 400, status: "INVALID_ARGUMENT" } }], null],
    ["a detail", { detail: "temperature is bad" }, null],
    [
      "a list of details",
      { detail: [{ loc: ["body", "messages", 0, "role"], msg: "temperature is bad" }] },
      "messages[0].role",
    ],
    ["a message", { object: "error", message: "temperature is bad", type: "BadRequestError" }, null],
    [
      "a name in the text",
      { error: { message: "temperature is bad (parameter=temperature, value=5.0)", param: null } },
      "temperature",
    ],
    ["plain text", "temperature is bad\n", null],
    ["a page", "<!DOCTYPE html><html><head><title> temperature is bad </title>", null],
  ])("reads the message and the field of an error as %s", (_, body, param) => {
    expect(errorOf(400, body)).toMatchObject({ message: "temperature is bad", param });
  });

  it("gives an error message if the server sends none", () => {
    for (const body of ["", "{}", "null", "[]", { error: {} }]) {
      expect(errorOf(400, body).message).toBe("The upstream server rejected the request without a reason.");
    }
  });

  it("removes addresses, keys and control characters from messages, and cuts them to 1,000 characters (SEC-18, SEC-24)", () => {
    const { message } = errorOf(400, {
      error: {
        message: `see http://10.0.0.7:8000/x?key=1, key secret-key-1 or sk-abcdef123456\r\n\u001b]52;c;x\u0007 ${"y".repeat(2_000)}`,
      },
    });
    expect(message).not.toMatch(/10\.0\.0\.7|secret-key-1|sk-abc|\p{Cc}/u);
    expect(message.length).toBeLessThanOrEqual(1_000);
  });

  it("drops a `param` that is not the path of a field", () => {
    for (const param of ["a b", "x\r\ny", "http://h/", "x".repeat(200)]) {
      expect(errorOf(400, { error: { message: "bad", param } }).param).toBeNull();
    }
  });

  it("gives a short message for the log, without words of the prompt and without keys (SEC-18)", () => {
    const error = errorOf(500, {
      error: { message: `failed on CANARY-prompt-7 with secret-key-1: ${"z".repeat(999)}` },
    });
    expect(error.message).toBe("the upstream answered 500");
    expect(causeOf(error)).toContain("HTTP 500: failed on …");
    expect(causeOf(error)).not.toMatch(/CANARY|secret-key/);
    expect(causeOf(error).length).toBeLessThan(400);
  });

  it("treats status 500 as the server's fault if the message does not blame the request", () => {
    expect(errorOf(500, { error: { message: "CUDA out of memory" } }).code).toBe("upstream_error");
  });

  it("marks all failures as retryable except for a rejected key", () => {
    expect(errorOf(401, "").retryable).toBe(false);
    for (const status of [429, 500, 502, 503, 504]) expect(errorOf(status, "").retryable).toBe(true);
  });

  it.each([
    [{ "retry-after": "7" }, 7_000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after-ms": "250", "retry-after": "7" }, 250],
    [{ "retry-after": new Date(nowMs + 20_000).toUTCString() }, 20_000],
    [{ "retry-after": new Date(nowMs - 20_000).toUTCString() }, 0],
    [{ "retry-after": "99999999" }, 7 * 86_400_000],
    [{ "retry-after": "soon" }, null],
    [{}, null],
  ])("reads the wait from the headers %j", (headers, waitMs) => {
    expect(retryAfterMs(headers, nowMs)).toBe(waitMs);
    expect(errorOf(429, "", headers).retryAfterMs).toBe(waitMs);
    expect(errorOf(500, "", headers).retryAfterMs).toBeNull();
  });

  it("reads the overload error of Ray Serve, which is plain text with status 503", () => {
    const text = "Request dropped due to backpressure (num_queued_requests=8, max_queued_requests=8).";
    expect(errorOf(503, text)).toMatchObject({ code: "overloaded", retryable: true });
  });
});
