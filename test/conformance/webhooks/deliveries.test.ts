import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { version } from "../../../src/contract/version.js";
import { verifyWebhook } from "../../../src/lib/webhook-signature.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;
let receiver: Receiver;
let secret: string;

beforeAll(async () => {
  receiver = await startReceiver();
  service = await startService({ config: { webhooks: { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] } } });
  const client = new ServiceClient(service.http, service.key);
  const events = ["request.completed"];
  secret = String((await client.post("/v1/webhooks", { url: receiver.url, events })).json["secret"]);
  const messages = [{ role: "user", content: "Grüß dich 😀" }];
  await client.post("/v1/chat/completions", { model: "test-chat", messages });
  await receiver.until(1);
});
afterAll(async () => {
  await service.close();
  await receiver.close();
});

/** The delivery of the request, in the form that the receiver got. */
function received() {
  const [request] = receiver.requests;
  if (request === undefined) throw new Error("nothing was delivered");
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  return { ...request, headers, body: request.rawBody.toString("utf8") };
}

describe("a delivery of the service", () => {
  it("is accepted by the helper of this package, and rejected if any byte is changed (WH-15, WH-17)", () => {
    const { headers, rawBody } = received();
    const header = headers["service-signature"];
    expect(verifyWebhook({ secret, header, body: rawBody })).toMatchObject({ valid: true });
    const tampered = Uint8Array.from(rawBody, (byte, i) => (i === 10 ? byte ^ 1 : byte));
    expect(verifyWebhook({ secret, header, body: tampered })).toEqual({ valid: false, reason: "signature_mismatch" });
  });

  it("is accepted by Stripe's package (WH-15)", () => {
    const { headers, rawBody } = received();
    const { webhooks } = new Stripe("sk_test_x");
    expect(webhooks.constructEvent(rawBody, headers["service-signature"] ?? "", secret).type).toBe("request.completed");
  });

  it("is accepted by OpenAI's SDK and by standardwebhooks (WH-18)", async () => {
    const { headers, body } = received();
    const { webhooks } = new OpenAI({ apiKey: "x" });
    expect(await webhooks.unwrap(body, headers, secret)).toEqual(JSON.parse(body));
    expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body));
  });

  it("contains event, id, attempt and sender (WH-18)", () => {
    const { method, headers, body } = received();
    expect(method).toBe("POST");
    expect(headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": `UnifiedInference/${version}`,
      "service-delivery-id": expect.stringMatching(/^dlv_[0-9a-f]{32}$/),
      "service-attempt": "1",
      "webhook-id": JSON.parse(body).id,
    });
    expect(headers["service-signature"]).toContain(`t=${headers["webhook-timestamp"]},`);
  });
});
