import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";

const endpoints = "unified.webhook.v1.WebhookEndpointService";

describe("secrets of webhook endpoints", () => {
  let service: RunningService;
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver({ answer: { status: 200, body: "thank you" } });
    const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
    service = await startService({ config: { webhooks, state: { durability: "every-write" } }, logLevel: "debug" });
  });
  afterAll(async () => {
    await service.close();
    await receiver.close();
  });

  /** All output of the service that anybody may see, except the answers that create a secret. */
  async function everythingSaid(id: string): Promise<string> {
    const own = new ServiceClient(service.http, service.key);
    const administrator = new ServiceClient(service.http, service.adminToken);
    const answers: ClientAnswer[] = [
      await own.get("/v1/webhooks"),
      await own.get(`/v1/webhooks/${id}`),
      await own.rpc(`${endpoints}/ListWebhookEndpoints`),
      await administrator.rpc(`${endpoints}/GetWebhookEndpoint`, { id }),
      await administrator.rpc(`${endpoints}/SendTestEvent`, { id }),
      await own.rpc(`${endpoints}/UpdateWebhookEndpoint`, { id, description: "new" }),
      await administrator.rpc("unified.webhook.v1.DeliveryService/ListDeliveries"),
      await administrator.rpc("unified.admin.v1.SystemService/ListAuditRecords", { pageSize: 1_000 }),
    ];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const metrics = await (await fetch(`${service.ops}/metrics`)).text();
    const sent = receiver.requests.map(({ headers, rawBody }) => JSON.stringify(headers) + rawBody.toString());
    const said = [...answers.map(({ text }) => text), metrics, ...sent];
    return [...said, JSON.stringify(await service.debugState()), JSON.stringify(service.logs)].join("\n");
  }

  const keptBytes = (): string =>
    readdirSync(service.dataDir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)).toString("latin1"))
      .join("\n");

  it("are shown once, and are in no later response, log, record, metric or file (WH-5, WH-6, SEC-18, SEC-30, USE-16)", async () => {
    const own = new ServiceClient(service.http, service.key);
    const created = await own.post("/v1/webhooks", { url: receiver.url, events: ["request.completed"] });
    const { id, secret } = created.json as { id: string; secret: string };
    const rotated = await own.rpc(`${endpoints}/RotateWebhookSecret`, { id, overlap: "3600s" });
    const secrets = [secret, String(rotated.json["secret"])];
    expect(new Set(secrets).size).toBe(2);
    expect((await own.chat("test-chat")).status).toBe(200);
    await receiver.until(1);
    const said = await everythingSaid(id);
    const kept = keptBytes();
    expect(said).toContain(id);
    expect(kept).toContain(id);
    for (const each of secrets) {
      // The bytes of the secret must not appear either: an encoder may have omitted the first or the last of them.
      const core = each.slice("whsec_".length, -4);
      for (const place of [said, kept]) expect(place).not.toContain(core);
    }
    expect(said).not.toContain("whsec_");
  });

  it("every operation on an endpoint leaves one audit record with the caller's key (KEY-23, SEC-30)", async () => {
    const own = new ServiceClient(service.http, service.key);
    const created = await own.post("/v1/webhooks", { url: `${receiver.url}?token=hush`, events: ["request.failed"] });
    const { id } = created.json as { id: string };
    await own.rpc(`${endpoints}/UpdateWebhookEndpoint`, { id, status: "disabled" });
    await own.rpc(`${endpoints}/RotateWebhookSecret`, { id });
    await own.rpc(`${endpoints}/SendTestEvent`, { id });
    await own.delete(`/v1/webhooks/${id}`);
    expect((await own.delete(`/v1/webhooks/${id}`)).status).toBe(404);
    const administrator = new ServiceClient(service.http, service.adminToken);
    const page = await administrator.rpc("unified.admin.v1.SystemService/ListAuditRecords", { pageSize: 1_000 });
    const records = page.json["records"] as { target: string; action: string; actorKind: string; actorId: string }[];
    const ofThis = records.filter(({ target }) => target === id).toReversed();
    expect(ofThis.map(({ action }) => action)).toEqual(
      ["create", "update", "rotate", "test", "delete"].map((act) => `webhook_endpoint.${act}`),
    );
    for (const { actorKind, actorId } of ofThis) {
      expect([actorKind, actorId]).toEqual(["AUDIT_ACTOR_KIND_API_KEY", expect.stringMatching(/^key_/)]);
    }
    expect(page.text).not.toContain("hush");
  });
});
