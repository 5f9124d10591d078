import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import type { Principal } from "../../../../src/domain/call/principal.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { Deliveries, type DeliveryCaller, type ReplayInput } from "../../../../src/domain/webhooks/deliveries.js";
import type { Delivery } from "../../../../src/domain/webhooks/delivery.js";
import type {
  DeliveryFilter,
  ReplayRequest,
  ReplayStep,
  RetryOutcome,
  RetryRequest,
} from "../../../../src/domain/webhooks/delivery-queue.js";
import { type EndpointRecord, freshHealth } from "../../../../src/domain/webhooks/endpoint-store.js";
import type { Act } from "./endpoints-fixture.js";

const endpointId = `we_${"E".repeat(24)}`;
const deliveryId = `dlv_${"d".repeat(32)}`;
const nowMs = Date.parse("2026-05-01T12:00:00Z");

const delivery: Delivery = {
  id: deliveryId,
  account: "a",
  eventId: `evt_${"0".repeat(32)}`,
  eventType: "request.completed",
  endpointId,
  state: "permanently_failed",
  reason: "retries_used_up",
  createdAtMs: nowMs - 1_000,
  nextAttemptAtMs: null,
  attemptsMade: 6,
  attempts: [],
  isPurged: false,
  replayId: null,
};

function callerOf(sessionId: string | null = null, signal = new AbortController().signal): DeliveryCaller {
  const principal: Principal = { kind: "administrator", keyId: null, account: "default", sessionId, role: "admin" };
  return { principal, address: "192.0.2.1", signal };
}

/** Deliveries over a queue whose answers the test sets. */
function open(
  options: { outcome?: RetryOutcome; status?: EndpointRecord["status"] | null; steps?: ReplayStep[] } = {},
) {
  const { outcome = "queued", status = "enabled", steps = [] } = options;
  const acts: Act[] = [];
  const filters: DeliveryFilter[] = [];
  const retries: RetryRequest[] = [];
  const replays: ReplayRequest[] = [];
  const record = { id: endpointId, account: "a", status } as EndpointRecord;
  const deliveries = new Deliveries({
    queue: {
      find: async (id) => (id === deliveryId ? delivery : null),
      payload: async () => '{"id":"evt"}',
      list: async (filter) => {
        filters.push(filter);
        return { deliveries: [delivery], next: "17:dlv" };
      },
      retryNow: async (request) => {
        retries.push(request);
        return outcome;
      },
      replay: async (request) => {
        replays.push(request);
        const step = steps[replays.length - 1];
        if (step === undefined) throw new ServiceError("storage_unavailable", "The store is unavailable.");
        return step;
      },
    },
    endpoints: { find: async () => (status === null ? null : { record, health: freshHealth }) },
    audit: {
      record: async (source, action, target, details = {}, result = "ok") => {
        acts.push({ source, action, target, details: { ...details, result } });
      },
    },
    now: () => nowMs,
  });
  return { deliveries, acts, filters, retries, replays };
}

const any = { account: "", state: "", endpointId: "", eventType: "", fromMs: null, toMs: null, replayId: "" };
const firstPage = { pageSize: 0, pageToken: "" };

describe("listing deliveries", () => {
  it("combines all given filters and returns pages (WH-45)", async () => {
    const { deliveries, filters } = open();
    const question = {
      account: "a",
      state: "permanently_failed",
      endpointId,
      eventType: "request.failed",
      fromMs: 1,
      toMs: 2,
      replayId: "rpl_1",
    };
    const page = await deliveries.list({ ...question, pageSize: 1, pageToken: "" });
    expect(page).toEqual({ deliveries: [delivery], nextPageToken: expect.stringMatching(/^[\w-]+$/) });
    await deliveries.list({ ...any, pageSize: 1, pageToken: page.nextPageToken });
    expect(filters).toEqual([question, expect.objectContaining({ account: null, state: null, endpointId: null })]);
  });

  it.each([
    ["account", { account: "No Account" }],
    ["state", { state: "failed" }],
    ["endpoint_id", { endpointId: "we_1" }],
    ["event_type", { eventType: "request" }],
    ["created_from", { fromMs: Number.NaN }],
    ["created_before", { toMs: 1e300 }],
    ["replay_id", { replayId: "two words" }],
    ["page_token", { pageToken: Buffer.from("two words").toString("base64url") }],
  ])("rejects an invalid %s and names it (WH-45)", async (param, changes) => {
    const { deliveries } = open();
    const refusal = { code: "invalid_value", param };
    await expect(deliveries.list({ ...any, ...firstPage, ...changes })).rejects.toMatchObject(refusal);
  });

  it("returns one delivery with its body, and not_found for an unknown one", async () => {
    const { deliveries } = open();
    expect(await deliveries.get(deliveryId)).toEqual({ delivery, payload: '{"id":"evt"}' });
    for (const id of [`dlv_${"0".repeat(32)}`, "", "dlv_1"]) {
      await expect(deliveries.get(id)).rejects.toMatchObject({ code: "not_found", param: "id" });
    }
  });
});

describe("a manual retry", () => {
  it("is queued with its requester and audited (WH-46, KEY-23)", async () => {
    const { deliveries, retries, acts } = open();
    const order = { id: deliveryId, restartSchedule: true, resendDelivered: false };
    expect(await deliveries.retry(order, callerOf("ses_1"))).toEqual(delivery);
    await deliveries.retry({ ...order, restartSchedule: false, resendDelivered: true }, callerOf());
    expect(retries).toEqual([
      { account: "a", deliveryId, by: "session:ses_1", restart: true, again: false },
      { account: "a", deliveryId, by: "admin_token", restart: false, again: true },
    ]);
    expect(acts.map(({ action, target }) => [action, target])).toEqual([
      ["delivery.retry", deliveryId],
      ["delivery.retry", deliveryId],
    ]);
  });

  it.each([
    ["in_flight", "conflict", null, "few seconds"],
    ["delivered", "conflict", false, "resend_delivered"],
    ["purged", "gone", null, "removed"],
    ["endpoint_disabled", "conflict", false, "UpdateWebhookEndpoint"],
    ["endpoint_deleted", "conflict", false, "new endpoint"],
    ["unknown", "not_found", null, "no delivery"],
  ] as const)(
    "is rejected if the queue answers %s, with the code %s and a remedy (WH-47, WH-50)",
    async (outcome, code, again, words) => {
      const { deliveries, acts } = open({ outcome });
      const order = { id: deliveryId, restartSchedule: false, resendDelivered: false };
      const refusal = await deliveries.retry(order, callerOf()).catch((error: unknown) => error);
      expect(refusal).toMatchObject({ code, shouldRetry: again, message: expect.stringContaining(words) });
      expect(acts).toEqual([]);
    },
  );
});

const wish: ReplayInput = {
  account: "a",
  endpointId,
  fromMs: nowMs - 3_600_000,
  toMs: null,
  includeDelivered: false,
  restartSchedule: false,
  replayId: "",
};
const step = (queued: number, next: string | null, more: Partial<ReplayStep> = {}): ReplayStep => ({
  queued,
  waiting: 0,
  delivered: 0,
  failed: 0,
  next,
  ...more,
});

describe("a replay", () => {
  it("works through the range in steps of 500, 50 a second, and reports its progress (WH-48)", async () => {
    const steps = [step(500, "1"), step(20, "2", { waiting: 100, delivered: 3 }), step(7, null, { failed: 4 })];
    const { deliveries, replays, acts } = open({ steps });
    const { progress, toMs, replayId } = await deliveries.replay(wish, callerOf("ses_1"));
    expect(progress).toEqual({ queued: 527, waiting: 627, delivered: 3, failed: 4 });
    expect(toMs).toBe(nowMs);
    const same = { account: "a", endpointId, fromMs: wish.fromMs, toMs: nowMs, which: "failed", restart: false };
    const all = { ...same, by: "session:ses_1", replayId, max: 500, spacingMs: 20 };
    expect(replays).toEqual([
      { ...all, after: null, firstInMs: 0 },
      { ...all, after: "1", firstInMs: 500 * 20 },
      { ...all, after: "2", firstInMs: 620 * 20 },
    ]);
    expect(acts).toMatchObject([
      { action: "delivery.replay", target: endpointId, details: { replay_id: replayId, queued: "527", result: "ok" } },
    ]);
  });

  it("queues at most 10,000 deliveries per call (WH-48)", async () => {
    const steps = [...Array.from({ length: 19 }, (_, i) => step(500, String(i))), step(490, "19"), step(10, "20")];
    const { deliveries, replays } = open({ steps: [...steps, step(500, "21")] });
    const { progress } = await deliveries.replay(wish, callerOf());
    expect(progress.queued).toBe(10_000);
    expect(replays.slice(-2).map(({ max }) => max)).toEqual([500, 10]);
  });

  it("has the same replay id if it is repeated, and another one for another start, endpoint, option or given id (WH-48)", async () => {
    const idOf = async (changes: Partial<ReplayInput>): Promise<string> => {
      const { deliveries } = open({ steps: [step(0, null)] });
      return (await deliveries.replay({ ...wish, ...changes }, callerOf())).replayId;
    };
    const first = await idOf({});
    expect(first).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    for (const same of [{}, { toMs: nowMs }, { toMs: nowMs - 1 }]) expect(await idOf(same)).toBe(first);
    const others: Partial<ReplayInput>[] = [
      { fromMs: nowMs - 1 },
      { endpointId: `we_${"F".repeat(24)}` },
      { account: "b" },
      { includeDelivered: true },
      { restartSchedule: true },
      { replayId: "again" },
    ];
    expect(new Set([first, ...(await Promise.all(others.map(idOf)))]).size).toBe(others.length + 1);
  });

  it.each([
    ["created_from", "missing_required_parameter", { fromMs: null }],
    ["created_before", "invalid_value", { toMs: nowMs - 3_600_000 }],
    ["endpoint_id", "invalid_value", { endpointId: "" }],
    ["account", "invalid_value", { account: "No Account" }],
    ["replay_id", "invalid_value", { replayId: "a".repeat(65) }],
  ])("rejects an invalid %s as %s (WH-48)", async (param, code, changes) => {
    const { deliveries, replays } = open({ steps: [step(0, null)] });
    await expect(deliveries.replay({ ...wish, ...changes }, callerOf())).rejects.toMatchObject({ code, param });
    expect(replays).toEqual([]);
  });

  it("is rejected for an unknown and for a disabled endpoint (WH-48)", async () => {
    const missing = open({ status: null }).deliveries.replay(wish, callerOf());
    await expect(missing).rejects.toMatchObject({ code: "not_found", param: "endpoint_id" });
    const disabled = open({ status: "disabled" }).deliveries.replay(wish, callerOf());
    await expect(disabled).rejects.toMatchObject({ code: "conflict", message: expect.stringContaining("disabled") });
  });

  it("is audited with the number of queued deliveries and the reason if it is interrupted (KEY-23)", async () => {
    const away = open({ steps: [step(500, "1")] });
    const lost = away.deliveries.replay(wish, callerOf());
    await expect(lost).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(away.acts).toMatchObject([{ details: { queued: "500", result: "storage_unavailable" } }]);

    const gone = open({ steps: [step(500, "1")] });
    const stop = new AbortController();
    stop.abort(new Ended("client_left"));
    const left = gone.deliveries.replay(wish, callerOf(null, stop.signal));
    await expect(left).rejects.toMatchObject({ code: "client_closed_request" });
    expect(gone.replays).toEqual([]);
  });
});
