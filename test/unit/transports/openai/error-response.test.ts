import { describe, expect, it } from "vitest";
import { type ErrorCode, errorRow, errors } from "../../../../src/contract/errors.js";
import { ServiceError, type ServiceErrorOptions } from "../../../../src/domain/call/service-error.js";
import { errorHead } from "../../../../src/transports/http/answer.js";
import { openAiFamily } from "../../../../src/transports/openai/routes.js";

const respond = (code: ErrorCode, options: ServiceErrorOptions = {}) =>
  responseOf(new ServiceError(code, "Said to the caller.", options));

function responseOf(error: ServiceError) {
  return { ...errorHead(error), body: JSON.stringify(openAiFamily.errorToJson(error)) };
}

describe("error response", () => {
  it.each(Object.keys(errors) as ErrorCode[])("for %s has its status and all JSON fields (ERR-1, DEC-2)", (code) => {
    const { status, body } = respond(code, { param: "messages[0]" });
    expect(status).toBe(errorRow(code).http);
    expect(JSON.parse(body)).toEqual({
      error: { message: "Said to the caller.", type: errorRow(code).type, param: "messages[0]", code },
    });
    expect(JSON.parse(respond(code).body).error.param).toBeNull();
  });

  it.each([
    [1, "1", "1"],
    [0, "1", "1"],
    [1_000, "1", "1000"],
    [12_500.4, "13", "12501"],
    [60_000, "60", "60000"],
  ])("has a retry delay of %d ms in both headers (RETRY-1)", (retryAfterMs, seconds, milliseconds) => {
    for (const code of ["rate_limit_exceeded", "server_is_overloaded"] as const) {
      expect(respond(code, { retryAfterMs }).headers).toEqual({
        "retry-after": seconds,
        "retry-after-ms": milliseconds,
      });
    }
  });

  it.each(["server_is_overloaded", "model_loading", "model_not_loaded", "server_shutting_down"] as const)(
    "for %s has a default retry delay if no better one is known (RETRY-1)",
    (code) => {
      expect(respond(code).headers).toEqual({ "retry-after": "1", "retry-after-ms": "1000" });
    },
  );

  it("has the advice not to retry with a delay above a minute (RETRY-2)", () => {
    expect(respond("rate_limit_exceeded", { retryAfterMs: 60_001 }).headers).toEqual({
      "retry-after": "61",
      "retry-after-ms": "60001",
      "x-should-retry": "false",
    });
  });

  it("has the advice not to retry and no delay for an error that a retry would repeat (RETRY-3)", () => {
    expect(respond("insufficient_quota").headers).toEqual({ "x-should-retry": "false" });
    expect(respond("storage_unavailable").headers).toEqual({ "x-should-retry": "false" });
    expect(respond("upstream_error", { shouldRetry: false, retryAfterMs: 5 }).headers).toEqual({
      "x-should-retry": "false",
    });
    expect(respond("invalid_type").headers).toEqual({});
  });
});
