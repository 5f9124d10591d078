import type { ApiKeyRecord } from "../../src/domain/access/key-store.js";
import { unlimited } from "../../src/domain/call/rate-limits.js";
import { type EventDraft, periodAt } from "../../src/domain/events/events.js";
import type { State } from "../../src/domain/service/state.js";
import type { AttemptResult } from "../../src/domain/webhooks/delivery.js";
import type { AttemptOutcome } from "../../src/domain/webhooks/delivery-queue.js";
import { sha256Hex } from "../../src/lib/crypto.js";
import { anyKey } from "../suites/api-key-records.js";
import { listAll } from "../suites/delivery-records.js";
import { endpoint, requestRecord, settlement, storedResponse, storedUpstream, threshold } from "./records.js";

/** The master key of `fillState`. */
export const masterKey = Buffer.alloc(32, 7);
/** A text encrypted with the master key for the name `secrets.canary`. */
const canary = "AUux0DzXNPvtt0bRDgCo0ikJ/EE75rujWVqHph87s7Zq9WaQ";
/** The secret of the key `key_1`. */
export const keySecret = "sk-uis-secret-of-key-1";
const retryDelayMs = 7_200_000;
const hourMs = 3_600_000;

export function fullKey(number: number, changes: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  return {
    id: `key_${number}`,
    name: `key "${number}" ü`,
    account: "a",
    scope: "read_write",
    hash: sha256Hex(number === 1 ? keySecret : `another secret ${number}`),
    prefix: "sk-uis-sec",
    last4: "ey-1",
    models: ["m"],
    limits: { ...unlimited, requestsPerMinute: 10 },
    createdAtMs: 1_000 + number,
    createdBy: "administrator",
    expiresAtMs: null,
    revokedAtMs: null,
    lastUsedAtMs: null,
    ...changes,
  };
}

function event(name: string): EventDraft {
  const id = `evt_${sha256Hex(name).slice(0, 32)}`;
  return { id, type: "request.completed", body: JSON.stringify({ id, type: "request.completed", text: "日本" }) };
}

/**
 * Writes records of every kind: three keys, of which one is revoked; deliveries in each state, of which two share a body; an
 * event whose deliveries are not created yet; usage of two accounts; a reached threshold.
 */
export async function fillState(state: State): Promise<void> {
  await fillDocuments(state);
  await fillDeliveries(state);
  await fillUsage(state);
  // The deliveries of this last event are not created.
  await state.ledger.settle(settlement("req_waiting", { event: event("waiting") }));
}

async function fillDocuments(state: State): Promise<void> {
  const nowMs = state.now();
  await state.settings.put("secrets.canary", canary, null);
  await state.settings.put("admin.password", "scrypt:1:hash", null);
  for (const number of [1, 2, 3]) await state.keys.insert(fullKey(number, number === 3 ? { account: "b" } : {}));
  await state.keys.revoke("key_2", nowMs);
  await state.limits.put({ owner: { kind: "account", id: "a" }, limits: unlimited, updatedAtMs: 5 });
  await state.upstreams.insert(storedUpstream("gpu", { sealedKey: "sealed==", keyHint: "abcd" }));
  await state.drains.insert({ id: "gpu/m", sinceMs: 5 });
  await state.catalog.firstSeen(["m", "other"], 77);
  const audit = {
    actor: { kind: "admin_token", id: "" },
    address: "203.0.113.1",
    target: "key_1",
    result: "ok",
  } as const;
  await state.audit.append({
    id: "aud_1",
    atMs: nowMs - 5,
    action: "api_key.create",
    details: { name: "x y" },
    ...audit,
  });
  await state.audit.append({ id: "aud_2", atMs: nowMs, action: "api_key.revoke", details: {}, ...audit });
  for (const number of [1, 2]) await state.responses.put(storedResponse(number), 100);
  const content = { request: "{}", answers: ["yes"], errorMessage: "", isCut: false };
  await state.requestLogs.append(
    [
      { record: requestRecord(1), content },
      { record: requestRecord(2, { code: "rate_limit_exceeded", keyId: null }), content: null },
    ],
    100,
  );
  const origin = { address: "203.0.113.1", userAgent: "browser", user: "admin", role: "admin" } as const;
  const times = { createdAtMs: nowMs, lastSeenAtMs: nowMs, expiresAtMs: nowMs + hourMs };
  await state.sessions.insert({ id: "ses_1", tokenHash: sha256Hex("token"), ...origin, ...times });
}

const refused: AttemptResult = {
  startedAtMs: 1_000,
  latencyMs: 12,
  status: 503,
  error: null,
  ip: "203.0.113.7",
  response: "later",
  retryAfter: "5",
  signatures: ["v1", "v2"],
};

async function fillDeliveries(state: State): Promise<void> {
  for (const id of ["we_1", "we_2"]) await state.endpoints.insert(endpoint(id), 20);
  await state.ledger.settle(settlement("req_1", { event: event("one") }));
  await attemptAll(state, ({ endpointId }) =>
    endpointId === "we_1" ? { state: "delivered" } : { state: "awaiting_retry", delayMs: retryDelayMs },
  );
  await state.ledger.settle(settlement("req_2", { event: event("two") }));
  await attemptAll(state, ({ endpointId }) =>
    endpointId === "we_1" ? { state: "delivered" } : { state: "permanently_failed", reason: "retries_used_up" },
  );
  const kept = await state.endpoints.find("a", "we_2");
  if (kept === null) throw new Error("the endpoint we_2 is missing");
  // The open delivery of this endpoint ends at the next claim.
  await state.endpoints.insert(endpoint("we_off"), 20);
  await state.ledger.settle(settlement("req_3", { event: event("three") }));
  while (await state.deliveries.fanOut(100));
  await state.endpoints.replace(endpoint("we_off", { status: "disabled", disabledReason: "by_hand", version: 2 }));
}

async function attemptAll(state: State, outcomeOf: (claim: { endpointId: string }) => AttemptOutcome): Promise<void> {
  while (await state.deliveries.fanOut(100));
  const { claims } = await state.deliveries.claim({ max: 64, leaseMs: 15_000 });
  for (const claim of claims) {
    const outcome = outcomeOf(claim);
    const status = outcome.state === "delivered" ? 200 : 503;
    await state.deliveries.finish({ claim, result: { ...refused, status }, outcome });
  }
}

async function fillUsage(state: State): Promise<void> {
  const nowMs = state.now();
  // The first request reaches the first two values of 16 tokens.
  const limit = threshold("thr_1", { limit: 16n, percents: [50, 80, 100] });
  await state.thresholds.insert(limit);
  await state.thresholds.insert(threshold("thr_2", { apiKeyId: "key_1", action: "refuse" }));
  const thresholds = [limit];
  await state.ledger.settle(settlement("req_10", { account: "b", keyId: null, costNano: 5, cachedTokens: 2 }));
  await state.ledger.settle(settlement("req_11", { operation: "create_embeddings", costNano: 9, thresholds }));
  const yesterdayMs = periodAt("day", nowMs).startMs - 10 * hourMs;
  await state.ledger.settle(settlement("req_12", { endedAtMs: yesterdayMs, promptTokens: 2 ** 50 }));
}

/** Everything that a service shows, apart from sessions; usage of the month, and by hour and day since yesterday, at `atMs`. */
export async function contentOf(state: State, atMs = state.now()) {
  const period = (kind: "day" | "month") => periodAt(kind, atMs);
  const { startMs, endMs } = period("day");
  const range = { fromMs: startMs - 2 * 86_400_000, toMs: endMs };
  const usage = ["a", "b"].flatMap((account) =>
    (["hour", "day"] as const).map((width) => state.usage.rows({ account, width, ...range })),
  );
  const scopes = [
    { kind: "account", id: "a" },
    { kind: "key", id: "key_1" },
  ] as const;
  const deliveries = await listAll(state.deliveries);
  const query = { filter: { model: null, keyId: null, account: null, code: null, fromMs: null, toMs: null } };
  const { records: requests } = await state.requestLogs.list({ ...query, limit: 10, after: null });
  return {
    settings: await Promise.all(
      (["secrets.canary", "admin.password", "admin.setup"] as const).map((name) => state.settings.get(name)),
    ),
    keys: (await state.keys.list({ filter: anyKey, limit: 100, after: null })).records,
    limits: await state.limits.list(),
    thresholds: await state.thresholds.list(),
    upstreams: await state.upstreams.list(),
    drains: await state.drains.list(),
    models: await state.catalog.firstSeen(["m", "other"], 5_000),
    endpoints: await state.endpoints.list("a"),
    // The deliveries of the waiting event are created only now, and have been due since the event.
    deliveries: deliveries
      .map((each) => (each.state === "pending" ? { ...each, createdAtMs: 0 } : each))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    bodies: await Promise.all(deliveries.map(({ id }) => state.deliveries.payload(id))),
    usage: await Promise.all(usage),
    used: await Promise.all(scopes.map((scope) => state.usage.used("a", scope, period("month")))),
    audit: (await state.audit.list({ limit: 10, after: null })).records,
    responses: await state.responses.conversation("a", "resp_2", { responsesMax: 10, charsMax: 1_000 }),
    requests: await Promise.all(requests.map(({ id }) => state.requestLogs.get(id))),
    newestRequest: await state.requestLogs.newest(),
  };
}

/** JSON of a content; sums are decimal strings. */
export function toJson(content: Awaited<ReturnType<typeof contentOf>>): string {
  const sums = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);
  return `${JSON.stringify(content, sums, 1)}\n`;
}
