import { toJson } from "@bufbuild/protobuf";
import { durationFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type WebhookEndpoint, WebhookEndpointSchema } from "../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { WebhookEndpointService } from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { verifyWebhook } from "../../../src/lib/webhook-signature.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type CallSettings, openWay, type RpcWay, wayNames } from "./ways.js";

const {
  createWebhookEndpoint,
  listWebhookEndpoints,
  getWebhookEndpoint,
  updateWebhookEndpoint,
  deleteWebhookEndpoint,
  rotateWebhookSecret,
  sendTestEvent,
} = WebhookEndpointService.method;
const events = ["request.completed", "request.failed"];
const dayMs = 86_400_000;

let service: RunningService;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver({ answer: { status: 202, body: "noted" } });
  const webhooks = { deliver: false, allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
  service = await startService({ config: { webhooks } });
});
afterAll(async () => {
  await service.close();
  await receiver.close();
});

/** Normalizes an object: protobuf JSON omits empty fields, and the fraction of a time if it is zero. */
function saidOf(object: Readonly<Record<string, unknown>>): object {
  const said = Object.entries(object).filter(([, value]) => value !== null && value !== "");
  return Object.fromEntries(
    said.map(([name, value]) => [name, /_at$/.test(name) ? Date.parse(String(value)) : value] as const),
  );
}

describe.each(wayNames)("WebhookEndpointService over %s", (name) => {
  let way: RpcWay;
  beforeAll(() => {
    way = openWay(name, service);
  });
  afterAll(() => way.close());
  const administrator = (): CallSettings => ({ authorization: `Bearer ${service.adminToken}` });
  const readOnly = (): CallSettings => ({ authorization: `Bearer ${service.readKey}` });

  async function make(fields: object = {}, settings: CallSettings = {}) {
    const webhookEndpoint = { url: receiver.url, events, ...fields };
    const { messages, failure } = await way.call(createWebhookEndpoint, { webhookEndpoint }, settings);
    expect(failure).toBeNull();
    const made = messages[0]?.webhookEndpoint;
    if (made === undefined) throw new Error("no endpoint was answered");
    return { made, id: made.id, secret: messages[0]?.secret ?? "" };
  }
  const list = async (settings: CallSettings = {}, account = ""): Promise<readonly WebhookEndpoint[]> =>
    (await way.call(listWebhookEndpoints, { account }, settings)).messages[0]?.webhookEndpoints ?? [];

  it("returns the same object as REST, and its secret only in the response that creates it (WH-2, WH-6, GRPC-2)", async () => {
    const { made, id, secret } = await make({ description: "Bücher 📚", maxInFlight: 3 });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const got = await way.call(getWebhookEndpoint, { id });
    expect(got.messages[0]?.webhookEndpoint).toEqual(made);
    expect(await list()).toEqual([made]);
    const shown = toJson(WebhookEndpointSchema, made, { useProtoFieldName: true }) as Record<string, unknown>;
    const { json: rest } = await new ServiceClient(service.http, service.key).get(`/v1/webhooks/${id}`);
    expect(saidOf({ ...shown, object: "webhook_endpoint" })).toEqual(saidOf({ ...rest, account: "default" }));
    expect(JSON.stringify([rest, shown])).not.toContain(secret.slice(6, -4));
    expect((await way.call(deleteWebhookEndpoint, { id })).failure).toBeNull();
    expect(await list()).toEqual([]);
  });

  it("allows reading but no changes with the scope read, and nothing without a credential (WH-3, KEY-7, KEY-17)", async () => {
    const { id } = await make();
    expect((await list(readOnly())).map((each) => each.id)).toEqual([id]);
    const change = { id, status: "disabled" };
    const webhookEndpoint = { url: receiver.url, events };
    const tried = async (settings: CallSettings) => [
      await way.call(createWebhookEndpoint, { webhookEndpoint }, settings),
      await way.call(updateWebhookEndpoint, change, settings),
      await way.call(rotateWebhookSecret, { id }, settings),
      await way.call(sendTestEvent, { id }, settings),
      await way.call(deleteWebhookEndpoint, { id }, settings),
    ];
    for (const { failure } of await tried(readOnly())) expect(failure?.code).toBe(status.PERMISSION_DENIED);
    for (const { failure } of await tried({ authorization: null })) expect(failure?.code).toBe(status.UNAUTHENTICATED);
    await way.call(deleteWebhookEndpoint, { id });
  });

  it.each([
    ["url", { url: "" }],
    ["url", { url: "https://10.0.0.1/" }],
    ["events", { events: [] }],
    ["events", { events: ["request.started"] }],
    ["events", { events: ["request.failed", "request.failed"] }],
    ["status", { status: "paused" }],
    ["max_in_flight", { maxInFlight: 65 }],
  ])("names an invalid %s: %j (WH-3)", async (param, fields) => {
    const webhookEndpoint = { url: receiver.url, events, ...fields };
    const { failure } = await way.call(createWebhookEndpoint, { webhookEndpoint });
    expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param, fields: [param] });
  });

  it("updates only the given fields (WH-2)", async () => {
    const { made, id } = await make();
    const disabled = await way.call(updateWebhookEndpoint, {
      id,
      status: "disabled",
      events: { values: ["request.failed"] },
    });
    expect(disabled.messages[0]?.webhookEndpoint).toMatchObject({
      url: made.url,
      events: ["request.failed"],
      status: "disabled",
      disabledReason: "by_hand",
      maxInFlight: 8,
    });
    const { failure } = await way.call(updateWebhookEndpoint, { id, url: "https://localhost/" });
    expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "url" });
    const enabled = await way.call(updateWebhookEndpoint, { id, status: "enabled", description: "", maxInFlight: 64 });
    expect(enabled.messages[0]?.webhookEndpoint).toMatchObject({
      status: "enabled",
      disabledReason: "",
      maxInFlight: 64,
    });
    await way.call(deleteWebhookEndpoint, { id });
  });

  it("returns the new secret of a rotation and the old one's expiry; a third secret is 409 with a time (WH-7)", async () => {
    const { id, secret } = await make();
    const beginMs = Date.now();
    const rotate = (overlapMs?: number) =>
      way.call(rotateWebhookSecret, { id, ...(overlapMs === undefined ? {} : { overlap: durationFromMs(overlapMs) }) });
    const [first] = (await rotate()).messages;
    expect(first?.secret).not.toBe(secret);
    expect(first?.webhookEndpoint?.secretHint).toBe(first?.secret.slice(-4));
    const oldExpiresAt = first?.oldExpiresAt;
    if (oldExpiresAt === undefined) throw new Error("the response has no expiry of the old secret");
    expect(first?.webhookEndpoint?.previousSecretExpiresAt).toEqual(oldExpiresAt);
    expect(Math.abs(timestampMs(oldExpiresAt) - beginMs - dayMs)).toBeLessThan(60_000);
    await rotate(7 * dayMs);
    const { failure } = await rotate(1_000);
    expect(failure).toMatchObject({ code: status.ABORTED, reason: "CONFLICT" });
    expect(failure?.message).toContain(new Date(timestampMs(oldExpiresAt)).toISOString());
    expect((await rotate(0)).failure).toBeNull();
    for (const overlapMs of [-1_000, 7 * dayMs + 1_000]) {
      expect((await rotate(overlapMs)).failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "overlap" });
    }
    await way.call(deleteWebhookEndpoint, { id });
  });

  it("sends a signed test event once, and shows the receiver's response only to the administrator (WH-43, WH-49)", async () => {
    const { id, secret } = await make();
    const before = receiver.requests.length;
    const toKey = (await way.call(sendTestEvent, { id, eventType: "request.failed" })).messages[0];
    expect(toKey).toMatchObject({ delivered: true, status: 202, error: "", response: "" });
    const toAdministrator = (await way.call(sendTestEvent, { id }, administrator())).messages[0];
    expect(toAdministrator).toMatchObject({ delivered: true, status: 202, response: "noted" });
    const received = receiver.requests.slice(before);
    expect(received.map(({ rawBody }) => rawBody.toString())).toEqual([toKey?.payload, toAdministrator?.payload]);
    for (const { rawBody, headers } of received) {
      const header = headers["service-signature"];
      expect(verifyWebhook({ secret, header, body: rawBody }).valid).toBe(true);
      expect(JSON.parse(rawBody.toString())).toMatchObject({ test: true });
    }
    await way.call(deleteWebhookEndpoint, { id });
  });

  it("takes the account from the administrator; a key that names another account or its endpoint gets 404 (SEC-22)", async () => {
    const { id } = await make({ account: "elsewhere" }, administrator());
    expect((await list(administrator(), "elsewhere")).map((each) => each.id)).toEqual([id]);
    expect(await list()).toEqual([]);
    const unknown = `we_${"0".repeat(24)}`;
    const told = await Promise.all([
      way.call(getWebhookEndpoint, { id }),
      way.call(getWebhookEndpoint, { id: unknown }),
      way.call(getWebhookEndpoint, { id }, administrator()),
      way.call(deleteWebhookEndpoint, { id }),
      way.call(rotateWebhookSecret, { id }),
      way.call(sendTestEvent, { id }),
      way.call(updateWebhookEndpoint, { id, url: receiver.url }),
    ]);
    expect(told.map(({ failure }) => failure?.code)).toEqual(told.map(() => status.NOT_FOUND));
    expect(new Set(told.map(({ failure }) => failure?.message)).size).toBe(1);
    const named = await Promise.all(
      ["elsewhere", "nowhere-at-all"].map((account) => way.call(getWebhookEndpoint, { id, account })),
    );
    expect(named.map(({ failure }) => [failure?.code, failure?.param])).toEqual([
      [status.NOT_FOUND, "account"],
      [status.NOT_FOUND, "account"],
    ]);
    expect(new Set(named.map(({ failure }) => failure?.message)).size).toBe(1);
    await way.call(deleteWebhookEndpoint, { id, account: "elsewhere" }, administrator());
  });
});
