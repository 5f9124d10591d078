import { describe, expect, it } from "vitest";
import { CallEntry } from "../../../../src/domain/call/call.js";
import type { Caller } from "../../../../src/domain/call/call-context.js";
import { type CallEnd, CallTimes } from "../../../../src/domain/call/observer.js";
import { tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { createLogger } from "../../../../src/telemetry/logger.js";

const secret = "sk-uis-q3Tq2bXW1c0aPLANTEDSECRETfE5kN9mJr7VwYz0Dh4Gs6";

function end(fields: Partial<CallEnd> = {}): CallEnd {
  return {
    requestId: "req_0123456789abcdef0123456789abcdef",
    operation: "create_chat_completion",
    transport: "openai",
    model: 'a "quoted" modèl',
    why: "completed",
    code: "ok",
    stage: "delivering",
    clientLeft: false,
    usage: { promptTokens: 3, completionTokens: 5, cachedTokens: 0, reasoningTokens: 0 },
    receivedAtMs: 1_000,
    durationMs: 12.4,
    times: new CallTimes(0),
    route: null,
    traceparent: undefined,
    details: null,
    ...fields,
  };
}

function caller(fields: Partial<Caller> = {}): Caller {
  const abort = new AbortSource();
  const none = { authorization: undefined, deadlineAtMs: Number.POSITIVE_INFINITY, abort };
  return { ...none, transport: "openai", address: "fe80::1%eth0", ...fields };
}

const members = {
  request_id: "req_0123456789abcdef0123456789abcdef",
  operation: "create_chat_completion",
  transport: "openai",
  account: "default",
  key_id: null,
  model: 'a "quoted" modèl',
  outcome: "completed",
  error: "upstream_timeout",
  admit_ms: 0,
  queue_ms: 0,
  duration_ms: 12,
  address: "fe80::1%eth0",
};
const tokens = { prompt_tokens: 3, completion_tokens: 5 };

describe("log line of a call", () => {
  it.each([
    [end(), caller(), undefined, null, tokens],
    [
      end({ model: null, usage: null, why: "client_left" }),
      caller({ retryCount: "2" }),
      "0af7651916cd43dd",
      null,
      { model: null, outcome: "client_left", retry_count: "2", trace_id: "0af7651916cd43dd" },
    ],
    [
      end(),
      caller({ clientRequestId: 'mine "and" \\ théirs', address: "" }),
      undefined,
      null,
      { ...tokens, client_request_id: 'mine "and" \\ théirs', address: "" },
    ],
    [
      end({ route: { deployment: 'gpu/"x"', attempts: 1, fallbackModel: null } }),
      caller(),
      undefined,
      null,
      { ...tokens, deployment: 'gpu/"x"', attempts: 1 },
    ],
    [
      end({ route: { deployment: "gpu/n", attempts: 3, fallbackModel: "n" } }),
      caller(),
      undefined,
      null,
      { ...tokens, deployment: "gpu/n", attempts: 3, fallback_model: "n" },
    ],
    [end(), caller(), undefined, { user: 'a "user"\n' }, { ...tokens, user: 'a "user"\n' }],
    [
      end(),
      caller(),
      undefined,
      { user: undefined, safetyIdentifier: "s", promptCacheKey: "ké", metadata: { 'a"': "\\" } },
      { ...tokens, safety_identifier: "s", prompt_cache_key: "ké", metadata: { 'a"': "\\" } },
    ],
  ] as const)("contains exactly the facts of the call, as JSON (%#)", (of, by, traceId, labels, more) => {
    const facts = {
      end: of,
      principal: tokenAdministrator,
      caller: by,
      error: new ServiceError("upstream_timeout", "late"),
      traceId,
      labels,
    } as const;
    const entry = new CallEntry(facts);
    expect(JSON.parse(`{${entry.toMembers().slice(1)}}`)).toEqual({ ...members, ...more });
  });

  it("shows no credential that a client sends as the id of its request (SEC-18, KEY-18)", () => {
    const lines: string[] = [];
    const log = createLogger({ level: "info", sink: { write: (line) => lines.push(line) } });
    const by = caller({ clientRequestId: `Bearer ${secret}` });
    const facts = {
      end: end(),
      principal: tokenAdministrator,
      caller: by,
      error: null,
      traceId: undefined,
      labels: null,
    };
    log.info(new CallEntry(facts), "request");
    expect(lines.join("")).not.toContain("PLANTEDSECRET");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "info",
      msg: "request",
      client_request_id: "Bearer [redacted]",
    });
  });
});
