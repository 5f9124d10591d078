import { describe, expect, it } from "vitest";
import { messagesErrors } from "../../../../../src/engines/openai/anthropic/messages-errors.js";
import {
  engineErrorOf,
  type FailedRequest,
  ReportedError,
  reportedErrorOf,
} from "../../../../../src/engines/openai/protocol/upstream-failure.js";
import { recordedAnswer } from "../../../../support/upstream/recorded-answers.js";

const request: FailedRequest = {
  promptParam: "messages",
  contextLength: null,
  keys: [],
  promptText: () => "",
  forms: messagesErrors,
};

describe("conversion of errors of Anthropic's API to EngineError", () => {
  it.each([
    ["err-auth", "unauthorized", null, null],
    ["err-rate-limit", "rate_limited", null, 7_000],
    ["err-overloaded", "overloaded", null, 3_000],
    ["err-unknown-model", "upstream_error", null, null],
    ["err-max-tokens", "bad_input", "max_tokens", null],
    ["err-too-long", "context_overflow", "messages", null],
    ["err-credit", "forbidden", null, null],
  ])("%s becomes %s with param %s and the wait %s (ERR-28)", (name, code, param, retryAfterMs) => {
    const { status, headers, body } = recordedAnswer(`anthropic/${name}`);
    const error = engineErrorOf({ status, headers, body: body.toString() }, request, 0);
    expect(error).toMatchObject({ code, param, retryAfterMs });
  });

  it("a prompt that is too long has the words that clients search for (ERR-26)", () => {
    const { body } = recordedAnswer("anthropic/err-too-long");
    const { message } = engineErrorOf({ status: 400, headers: {}, body: body.toString() }, request, 0);
    expect(message).toContain("maximum context length is 200000 tokens, but the prompt has 210000 tokens");
  });

  it.each([
    ["messages.3.content.0.text: text is empty", "messages"],
    ["stop_sequences: each must have a visible character", "stop"],
    ["thinking.enabled.budget_tokens: too small", "reasoning_effort"],
    ["nothing: known", null],
    ["constructor: known", null],
  ])("the message '%s' becomes an error with param %s", (message, param) => {
    const body = JSON.stringify({ type: "error", error: { type: "invalid_request_error", message } });
    expect(engineErrorOf({ status: 400, headers: {}, body }, request, 0)).toMatchObject({ code: "bad_input", param });
  });

  it.each([
    ["overloaded_error", "overloaded", "overloaded"],
    ["timeout_error", "timeout", "timeout"],
    ["api_error", "upstream_error", "upstream_error"],
    ["rate_limit_error", "rate_limited", "upstream_error"],
    ["authentication_error", "unauthorized", "upstream_error"],
    ["invalid_request_error", "bad_input", "upstream_error"],
    ["an_error_of_next_year", "upstream_error", "upstream_error"],
  ])("%s within a stream becomes %s before any content, and %s after it", (type, first, later) => {
    const reported = new ReportedError(JSON.stringify({ type: "error", error: { type, message: "no" } }));
    expect(reportedErrorOf(reported, request, true).code).toBe(first);
    expect(reportedErrorOf(reported, request, false).code).toBe(later);
  });
});
