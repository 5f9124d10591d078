import type { LimitScope, RateLimits } from "../../src/domain/call/rate-limits.js";
import { unlimited } from "../../src/domain/call/rate-limits.js";
import type { Threshold } from "../../src/domain/events/events.js";
import type { AdmitRequest, Budget, Settlement } from "../../src/domain/metering/ledger.js";
import type { RequestLogEntry, RequestRecord } from "../../src/domain/request-log/request-log-store.js";
import type { StoredResponse } from "../../src/domain/responses/response-store.js";
import type { StoredUpstream } from "../../src/domain/upstreams/upstream-store.js";
import type { EndpointRecord } from "../../src/domain/webhooks/endpoint-store.js";

export const leaseMs = 60_000;

/** An admission of account `a` by `key_1` for the model `m`, without limits. */
export function admission(requestId: string, changes: Partial<AdmitRequest> = {}): AdmitRequest {
  return {
    requestId,
    account: "a",
    keyId: "key_1",
    model: "m",
    operation: "create_chat_completion",
    reserve: { tokens: 0, costNano: 0 },
    promptTokens: 0,
    leaseMs,
    scopes: [],
    budgets: [],
    ...changes,
  };
}

/** The settlement of a request like that of `admission`: 10 tokens of prompt, 5 of answer. */
export function settlement(requestId: string, changes: Partial<Settlement> = {}): Settlement {
  return {
    requestId,
    account: "a",
    keyId: "key_1",
    model: "m",
    operation: "create_chat_completion",
    why: "completed",
    error: null,
    promptTokens: 10,
    completionTokens: 5,
    cachedTokens: 0,
    costNano: 0,
    latencyMs: 1,
    degraded: false,
    event: null,
    thresholds: [],
    endedAtMs: null,
    ...changes,
  };
}

export function scope(kind: LimitScope["owner"]["kind"], id: string, limits: Partial<RateLimits>): LimitScope {
  return { owner: { kind, id }, limits: { ...unlimited, ...limits } };
}

/** A threshold that is reached when the account has used 1,000 tokens in a month. */
export function threshold(id: string, changes: Partial<Threshold> = {}): Threshold {
  return {
    id,
    account: "a",
    apiKeyId: null,
    metric: "tokens",
    period: "month",
    limit: 1_000n,
    percents: [100],
    action: "notify",
    createdAtMs: 1_000,
    updatedAtMs: 1_000,
    ...changes,
  };
}

/** A budget of 1,000 tokens of the account in a month. */
export function budget(changes: Partial<Budget> = {}): Budget {
  return {
    id: "thr_budget",
    metric: "tokens",
    period: "month",
    limit: 1_000n,
    scope: { kind: "account", id: "a" },
    ...changes,
  };
}

/** An enabled, new endpoint of account `a` for all events of requests and thresholds; 8 concurrent attempts. */
export function endpoint(id: string, changes: Partial<EndpointRecord> = {}): EndpointRecord {
  return {
    id,
    account: "a",
    url: `https://example.org/${id}`,
    description: "",
    events: ["request.completed", "request.failed", "usage.threshold_reached"],
    status: "enabled",
    disabledReason: null,
    maxInFlight: 8,
    secrets: [{ sealed: `sealed of ${id}`, hint: "abcd", expiresAtMs: null }],
    version: 1,
    createdAtMs: 1_000,
    updatedAtMs: 1_000,
    ...changes,
  };
}

/** An upstream without a key, whose models are listed every 30 s. */
export function storedUpstream(name: string, changes: Partial<StoredUpstream> = {}): StoredUpstream {
  return {
    name,
    url: "http://10.0.0.5:8000/v1",
    kind: "vllm",
    apiVersion: null,
    models: [],
    discoverMs: 30_000,
    connectMs: 5_000,
    firstByteMs: 60_000,
    idleMs: 30_000,
    totalMs: 600_000,
    weight: 1,
    priority: 0,
    slots: 256,
    sealedKey: null,
    keyHint: "",
    headers: [],
    version: 1,
    createdAtMs: 1_000,
    updatedAtMs: 1_000,
    ...changes,
  };
}

/** A completed chat request of account `a` by `key_1` for the model `m`. */
export function requestRecord(number: number, changes: Partial<RequestRecord> = {}): RequestRecord {
  return {
    id: `req_${String(number).padStart(32, "0")}`,
    account: "a",
    keyId: "key_1",
    operation: "chat",
    protocol: "openai",
    model: "m",
    fallbackModel: null,
    code: "ok",
    isStream: false,
    receivedAtMs: 1_000_000 + number,
    durationMs: 30,
    admitMs: 1,
    queueMs: 2,
    firstTokenMs: null,
    promptTokens: 10,
    completionTokens: 5,
    cachedTokens: 0,
    costNano: 0,
    attempts: 1,
    tries: [{ deployment: "gpu/m", model: "m", beganMs: 3, durationMs: 25, code: "ok" }],
    address: "203.0.113.1",
    clientRequestId: null,
    traceId: null,
    labels: null,
    ...changes,
  };
}

/** An entry of the request log without content. */
export function requestLogEntry(number: number, changes: Partial<RequestRecord> = {}): RequestLogEntry {
  return { record: requestRecord(number, changes), content: null };
}

/** A stored response of account `a` with two items, the first of its conversation. */
export function storedResponse(number: number, changes: Partial<StoredResponse> = {}): StoredResponse {
  return {
    id: `resp_${number}`,
    account: "a",
    createdAtMs: 1_000_000 + number,
    previousId: null,
    items: 2,
    sealed: `sealed ${number}==`,
    ...changes,
  };
}
