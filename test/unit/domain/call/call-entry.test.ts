import { describe, expect, it } from "vitest";
import { CallEntry, type ClientLabels } from "../../../../src/domain/call/call.js";
import type { Caller } from "../../../../src/domain/call/call-context.js";
import { type CallEnd, CallTimes } from "../../../../src/domain/call/observer.js";
import { tokenAdministrator } from "../../../../src/domain/call/principal.js";
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

describe("the line of a call", () => {
  it.each([
    [end(), caller(), undefined],
    [end({ model: null, usage: null, why: "client_left" }), caller({ retryCount: "2" }), "0af7651916cd43dd"],
    [end(), caller({ clientRequestId: 'mine "and" \\ théirs', address: "" }), undefined],
    [end(), caller(), undefined, { user: 'a "user"\n' }],
    [
      end(),
      caller(),
      undefined,
      { user: undefined, safetyIdentifier: "s", promptCacheKey: "ké", metadata: { 'a"': "\\" } },
    ],
  ] as const)("says in JSON what its fields say (%#)", (of, by, traceId, labels: ClientLabels | null = null) => {
    const entry = new CallEntry(of, tokenAdministrator, by, "upstream_timeout", traceId, labels);
    expect(JSON.parse(`{${entry.toMembers().slice(1)}}`)).toEqual(JSON.parse(JSON.stringify(entry)));
    expect(entry).toMatchObject({ duration_ms: 12, account: "default", key_id: null, error: "upstream_timeout" });
  });

  it("shows no credential that a client sends as the id of its request (SEC-18, KEY-18)", () => {
    const lines: string[] = [];
    const log = createLogger({ level: "info", sink: { write: (line) => lines.push(line) } });
    const by = caller({ clientRequestId: `Bearer ${secret}` });
    log.info(new CallEntry(end(), tokenAdministrator, by, null, undefined, null), "request");
    expect(lines.join("")).not.toContain("PLANTEDSECRET");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "info",
      msg: "request",
      client_request_id: "Bearer [redacted]",
    });
  });
});
