import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { EngineError, type EngineErrorCode } from "../../../../src/domain/engine/engine.js";
import { contextOverflow, inputOverflow, serviceErrorOf } from "../../../../src/domain/engine/engine-error.js";

describe("serviceErrorOf", () => {
  const expected: readonly [EngineErrorCode, string][] = [
    ["overloaded", "server_is_overloaded"],
    ["context_overflow", "context_length_exceeded"],
    ["unsupported", "unsupported_parameter"],
    ["bad_schema", "invalid_json_schema"],
    ["bad_input", "invalid_value"],
    ["model_not_loaded", "model_not_loaded"],
    ["model_loading", "model_loading"],
    ["engine_restarted", "upstream_error"],
    ["upstream_error", "upstream_error"],
    ["unauthorized", "upstream_unauthorized"],
    ["forbidden", "upstream_unauthorized"],
    ["rate_limited", "upstream_rate_limited"],
    ["timeout", "upstream_timeout"],
    ["internal", "internal_error"],
    ["aborted", "internal_error"],
  ];
  it.each(expected)("the engine error %s becomes %s (ERR-9, ERR-22, ERR-23, ERR-24, ERR-25)", (inside, outside) => {
    expect(serviceErrorOf(new EngineError(inside, "x")).code).toBe(outside);
  });

  it("transient errors carry a Retry-After", () => {
    for (const code of ["overloaded", "model_loading", "model_not_loaded"] as const) {
      expect(serviceErrorOf(new EngineError(code, "x", { retryable: true })).retryAfterMs).toBeGreaterThanOrEqual(
        1_000,
      );
    }
    expect(serviceErrorOf(new EngineError("overloaded", "x")).retryAfterMs).toBe(1_000);
  });

  it("the engine's own Retry-After takes precedence (RETRY-1)", () => {
    for (const code of ["overloaded", "model_loading", "model_not_loaded"] as const) {
      expect(serviceErrorOf(new EngineError(code, "x", { retryable: true, retryAfterMs: 42_000 })).retryAfterMs).toBe(
        42_000,
      );
    }
  });

  it("a model that does not load by itself is reported with the advice not to retry, and without a wait (ERR-24)", () => {
    const error = serviceErrorOf(new EngineError("model_not_loaded", "there are no weights"));
    expect(error).toMatchObject({ code: "model_not_loaded", shouldRetry: false, retryAfterMs: null });
  });

  it("the error code of a schema depends on its field (TOOL-14, RF-4)", () => {
    const tool = new EngineError("bad_schema", "x", { param: "tools[0].function.parameters" });
    const format = new EngineError("bad_schema", "x", { param: "response_format" });
    expect(serviceErrorOf(tool)).toMatchObject({
      code: "invalid_function_parameters",
      param: "tools[0].function.parameters",
    });
    expect(serviceErrorOf(format)).toMatchObject({ code: "invalid_json_schema", param: "response_format" });
  });

  it("an engine's text reaches the caller for rejected requests only (ERR-2)", () => {
    const secret = "http://10.0.0.5:8000/v1 said 500";
    for (const code of [
      "overloaded",
      "upstream_error",
      "internal",
      "timeout",
      "aborted",
      "engine_restarted",
    ] as const) {
      expect(serviceErrorOf(new EngineError(code, secret)).message).not.toContain("10.0.0.5");
    }
    expect(serviceErrorOf(new Error(secret))).toMatchObject({ code: "internal_error" });
    expect(serviceErrorOf(new Error(secret)).message).not.toContain("10.0.0.5");
    expect(serviceErrorOf(new EngineError("bad_input", "'x' is odd.")).message).toBe("'x' is odd.");
  });

  it("keeps the engine's error as the cause, and leaves ServiceErrors as they are", () => {
    const inside = new EngineError("timeout", "x");
    expect(serviceErrorOf(inside).cause).toBe(inside);
    const outside = new ServiceError("conflict", "x");
    expect(serviceErrorOf(outside)).toBe(outside);
  });

  it("the error for a long prompt names the limit, the prompt's tokens and the requested output (ERR-26)", () => {
    const { message, param } = serviceErrorOf(
      contextOverflow({ contextLength: 4096, promptTokens: 5000, maxTokens: 77 }),
    );
    expect(message).toContain("maximum context length is 4096 tokens");
    expect(message).toContain("5000");
    expect(message).toContain("77");
    expect(param).toBe("messages");
  });

  it("an input that is too long is named by its position (EMB-1)", () => {
    const error = serviceErrorOf(inputOverflow({ contextLength: 512, param: "input[3]", inputTokens: 600 }));
    expect(error).toMatchObject({ code: "context_length_exceeded", param: "input[3]" });
    expect(error.message).toContain("maximum context length is 512 tokens");
    expect(error.message).toContain("input[3]");
  });
});
