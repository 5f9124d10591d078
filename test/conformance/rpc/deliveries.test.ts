import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import type { Delivery } from "../../../gen/unified/webhook/v1/delivery_pb.js";
import { DeliveryService } from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { WebhookEndpointService } from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { eventually } from "../../support/eventually.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type CallSettings, openWay, type RpcWay, wayNames } from "./ways.js";

const { listDeliveries, getDelivery, retryDelivery, replayDeliveries } = DeliveryService.method;
const { createWebhookEndpoint, updateWebhookEndpoint, deleteWebhookEndpoint } = WebhookEndpointService.method;

const good = { status: 200, body: "thank you" };
const bad = { status: 500, body: "not today" };

let service: RunningService;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  const open = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
  // One early retry; other tests cover the schedule.
  service = await startService({ config: { webhooks: { ...open, retry_delays: ["20ms"] } } });
});
afterAll(async () => {
  await service.close();
  await receiver.close();
});

describe.each(wayNames)("DeliveryService over %s", (name) => {
  let way: RpcWay;
  let endpointId: string;
  let startedAtMs: number;
  const administrator = (): CallSettings => ({ authorization: `Bearer ${service.adminToken}` });

  beforeAll(async () => {
    way = openWay(name, service);
    startedAtMs = Date.now() - 1;
    const webhookEndpoint = { url: receiver.url, events: ["request.completed"] };
    endpointId = (await way.call(createWebhookEndpoint, { webhookEndpoint })).messages[0]?.webhookEndpoint?.id ?? "";
  });
  afterAll(async () => {
    await way.call(deleteWebhookEndpoint, { id: endpointId });
    way.close();
  });

  const list = async (question: object = {}): Promise<Delivery[]> => {
    const asked = { endpointId, ...question };
    const { messages, failure } = await way.call(listDeliveries, asked, administrator());
    expect(failure).toBeNull();
    return messages[0]?.deliveries ?? [];
  };
  const get = async (id: string) => (await way.call(getDelivery, { id }, administrator())).messages[0];
  const retry = (id: string, fields: object = {}) => way.call(retryDelivery, { id, ...fields }, administrator());
  const until = (id: string, state: string, attempts: number) =>
    eventually(async () => {
      const { delivery } = (await get(id)) ?? {};
      return delivery?.state === state && delivery.attemptsMade === attempts;
    }, `${id} is ${state} after ${attempts} attempts`);

  /** Creates one more event and waits until its delivery has ended. Returns the delivery's id. */
  async function deliver(answer: typeof good, end: string, attempts: number): Promise<string> {
    receiver.answerWith(answer);
    const known = new Set((await list()).map(({ id }) => id));
    expect((await new ServiceClient(service.http, service.key).chat("test-chat")).status).toBe(200);
    let made: string | undefined;
    // Deliveries are created shortly after the answer, from the event of the request.
    await eventually(async () => {
      made = (await list()).find(({ id }) => !known.has(id))?.id;
      return made !== undefined;
    }, "the request has a delivery");
    await until(made ?? "", end, attempts);
    return made ?? "";
  }

  it("lists by filter, newest first and in pages, and shows each attempt (WH-45)", async () => {
    const first = await deliver(good, "delivered", 1);
    const second = await deliver(bad, "permanently_failed", 2);
    const ids = async (question: object) => (await list(question)).map(({ id }) => id);
    expect(await ids({})).toEqual([second, first]);
    expect(await ids({ state: "delivered" })).toEqual([first]);
    expect(await ids({ state: "permanently_failed", eventType: "request.completed" })).toEqual([second]);
    expect(await ids({ eventType: "request.failed" })).toEqual([]);
    expect(await ids({ account: "elsewhere" })).toEqual([]);
    expect(await ids({ createdFrom: timestampFromMs(startedAtMs), account: "default" })).toEqual([second, first]);
    expect(await ids({ createdBefore: timestampFromMs(startedAtMs) })).toEqual([]);
    const page = (await way.call(listDeliveries, { endpointId, pageSize: 1 }, administrator())).messages[0];
    expect(page?.deliveries.map(({ id }) => id)).toEqual([second]);
    expect(await ids({ pageSize: 1, pageToken: page?.nextPageToken })).toEqual([first]);

    const { delivery, payload = "" } = (await get(second)) ?? {};
    expect(delivery).toMatchObject({
      state: "permanently_failed",
      reason: "retries_used_up",
      endpointId,
      purged: false,
    });
    expect(delivery?.attempts.map(({ number, trigger, by }) => [number, trigger, by])).toEqual([
      [1, "schedule", ""],
      [2, "schedule", ""],
    ]);
    expect(delivery?.attempts[0]).toMatchObject({ status: 500, error: "", ip: "127.0.0.1", response: "not today" });
    expect(delivery?.attempts[0]?.nextAttemptAt).toBeDefined();
    expect(delivery?.attempts[1]?.nextAttemptAt).toBeUndefined();
    const headers = delivery?.attempts[1]?.headers ?? {};
    expect(Object.keys(headers)).toEqual(expect.arrayContaining(["service-signature", "webhook-signature"]));
    expect(receiver.requests.at(-1)?.headers).toMatchObject(headers);
    expect(JSON.parse(payload)).toMatchObject({ id: delivery?.eventId, type: "request.completed" });
    expect(receiver.requests.at(-1)?.rawBody.toString()).toBe(payload);
    // A page with the responses of receivers would be large.
    const [listed] = await list({ state: "permanently_failed" });
    expect(listed?.attempts.map(({ response }) => response)).toEqual(["", ""]);
    expect(listed?.attempts.map(({ headers }) => headers)).toEqual([{}, {}]);
  });

  it("retries a failed delivery once or on a new schedule, and a successful one only if the request says so (WH-46, WH-47)", async () => {
    const id = await deliver(bad, "permanently_failed", 2);
    expect((await retry(id)).failure).toBeNull();
    await until(id, "permanently_failed", 3);
    expect((await get(id))?.delivery).toMatchObject({ reason: "manual_retry_failed" });
    await retry(id, { restartSchedule: true });
    await until(id, "permanently_failed", 5);
    expect((await get(id))?.delivery).toMatchObject({ reason: "retries_used_up" });
    receiver.answerWith(good);
    await retry(id);
    await until(id, "delivered", 6);
    const triggers = (await get(id))?.delivery?.attempts.map(({ trigger, by }) => `${trigger} ${by}`.trim());
    const byHand = "manual admin_token";
    expect(triggers).toEqual(["schedule", "schedule", byHand, byHand, "schedule", byHand]);

    const again = (await retry(id)).failure;
    expect(again).toMatchObject({ code: status.ABORTED, reason: "CONFLICT", param: "resend_delivered" });
    expect((await retry(id, { resendDelivered: true })).failure).toBeNull();
    await until(id, "delivered", 7);
    const bodies = receiver.requests.slice(-2).map(({ rawBody }) => rawBody.toString());
    expect(new Set(bodies).size).toBe(1);
  });

  it("replays the deliveries that failed since a time, once for repeated requests, and returns the progress (WH-48)", async () => {
    const fromMs = Date.now();
    const ids = [await deliver(bad, "permanently_failed", 2), await deliver(bad, "permanently_failed", 2)];
    const arrived = await deliver(good, "delivered", 1);
    const replay = async (fields: object = {}) => {
      const wish = { endpointId, createdFrom: timestampFromMs(fromMs), ...fields };
      const { messages, failure } = await way.call(replayDeliveries, wish, administrator());
      expect(failure).toBeNull();
      return messages[0];
    };
    const first = await replay();
    expect(first).toMatchObject({ queued: 2, waiting: 2, delivered: 0, failed: 0 });
    expect(timestampMs(first?.createdBefore ?? timestampFromMs(0))).toBeGreaterThan(fromMs);
    for (const id of ids) await until(id, "delivered", 3);
    const { replayId } = first ?? {};
    expect(await replay()).toMatchObject({ queued: 0, waiting: 0, delivered: 2, failed: 0, replayId });
    expect((await list({ replayId })).map(({ id }) => id)).toEqual(ids.toReversed());
    const all = await replay({ includeDelivered: true, replayId: `all-${name.replace(" ", "-")}` });
    expect(all).toMatchObject({ queued: 3, waiting: 3 });
    await until(arrived, "delivered", 2);
    for (const id of ids) await until(id, "delivered", 4);
  });

  it("rejects an unknown delivery, a disabled endpoint and an invalid filter with a remedy in the message (WH-46)", async () => {
    const id = await deliver(good, "delivered", 1);
    const unknown = `dlv_${"0".repeat(32)}`;
    for (const { failure } of [await retry(unknown), await way.call(getDelivery, { id: "dlv_1" }, administrator())]) {
      expect(failure).toMatchObject({ code: status.NOT_FOUND, param: "id" });
    }
    await way.call(updateWebhookEndpoint, { id: endpointId, status: "disabled" });
    const disabled = (await retry(id, { resendDelivered: true })).failure;
    expect(disabled).toMatchObject({ code: status.ABORTED, message: expect.stringContaining("UpdateWebhookEndpoint") });
    const wish = { endpointId, createdFrom: timestampFromMs(startedAtMs) };
    const refused = (await way.call(replayDeliveries, wish, administrator())).failure;
    expect(refused).toMatchObject({ code: status.ABORTED });
    await way.call(updateWebhookEndpoint, { id: endpointId, status: "enabled" });
    const badly = (await way.call(listDeliveries, { state: "failed" }, administrator())).failure;
    expect(badly).toMatchObject({ code: status.INVALID_ARGUMENT, param: "state" });
  });

  it("requires the administrator (SEC-2)", async () => {
    const calls = (settings: CallSettings) => [
      way.call(listDeliveries, {}, settings),
      way.call(getDelivery, { id: "dlv_1" }, settings),
      way.call(retryDelivery, { id: "dlv_1" }, settings),
      way.call(replayDeliveries, { endpointId }, settings),
    ];
    for (const { failure } of await Promise.all(calls({}))) expect(failure?.code).toBe(status.PERMISSION_DENIED);
    const nobody = await Promise.all(calls({ authorization: null }));
    for (const { failure } of nobody) expect(failure?.code).toBe(status.UNAUTHENTICATED);
  });

  it("leaves an audit record of each retry and replay (KEY-23)", async () => {
    const { messages } = await way.call(SystemService.method.listAuditRecords, {}, administrator());
    const acts = messages[0]?.records.map(({ action }) => action) ?? [];
    expect(acts).toEqual(expect.arrayContaining(["delivery.retry", "delivery.replay", "webhook_endpoint.create"]));
  });
});
