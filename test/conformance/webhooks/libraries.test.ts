import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import { version } from "../../../src/contract/version.js";
import { signStandardWebhook } from "../../../src/lib/webhook-signature.js";
import {
  body,
  type Case,
  cases,
  current,
  expected,
  headersAt,
  id,
  nowS,
  secrets,
  serviceSignature,
  standardHeaders,
} from "./signed-cases.js";
import { vectors } from "./vectors.js";

async function accepts(check: () => unknown): Promise<boolean> {
  try {
    await check();
    return true;
  } catch {
    return false;
  }
}

/** `check` throws or rejects for a delivery that it refuses. */
async function expectVerdicts(check: (one: Case) => unknown): Promise<void> {
  const all = cases();
  const answers = await Promise.all(all.map(async (one) => [one.what, await accepts(() => check(one))]));
  expect(answers).toEqual(expected(all));
}

describe("Service-Signature is verified without changes (WH-15, WH-16)", () => {
  const { webhooks } = new Stripe("sk_test_x");

  it("by Stripe's npm package", async () => {
    await expectVerdicts((one) => webhooks.constructEvent(one.body, serviceSignature(one), one.secret));
    const event = webhooks.constructEvent(body, serviceSignature(cases()[0]), current);
    expect(JSON.parse(JSON.stringify(event))).toEqual(JSON.parse(body));
  });

  it("by Stripe's npm package on every vector whose body is JSON, except future timestamps, which it accepts", () => {
    const readable = vectors.filter((vector) => isJson(vector.body));
    const lenient = readable.filter((vector) => !vector.valid && stripeAccepts(vector));
    expect(lenient.map(({ reason }) => reason)).toEqual(["timestamp_in_future", "timestamp_in_future"]);
    expect(readable.filter((vector) => vector.valid && !stripeAccepts(vector))).toEqual([]);
    expect(readable.length).toBeGreaterThan(20);
  });

  function stripeAccepts({ body: posted, header, secret, now }: (typeof vectors)[number]): boolean {
    try {
      webhooks.constructEvent(posted, header, secret, 300, undefined, now * 1000);
      return true;
    } catch {
      return false;
    }
  }
});

describe("the Standard Webhooks headers of the same secret are verified (WH-18)", () => {
  it("by standardwebhooks", async () => {
    await expectVerdicts((one) => new Webhook(one.secret).verify(one.body, standardHeaders(one)));
  });

  it("by OpenAI's SDK", async () => {
    const { webhooks } = new OpenAI({ apiKey: "x" });
    await expectVerdicts((one) => webhooks.unwrap(one.body, standardHeaders(one), one.secret));
    expect(await webhooks.unwrap(body, standardHeaders(cases()[0]), current)).toEqual(JSON.parse(body));
  });

  it("together with headers for delivery, attempt and sender", () => {
    expect(headersAt(1_700_000_000)).toEqual({
      "content-type": "application/json",
      "user-agent": `UnifiedInference/${version}`,
      "service-signature": expect.stringMatching(/^t=1700000000,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/),
      "service-delivery-id": "dlv_1",
      "service-attempt": "2",
      "webhook-id": id,
      "webhook-timestamp": "1700000000",
      "webhook-signature": expect.stringMatching(/^v1,\S{44} v1,\S{44}$/),
    });
  });

  it("with the same signature as standardwebhooks creates", () => {
    const timestampS = nowS();
    const theirs = secrets.map((secret) => new Webhook(secret).sign(id, new Date(timestampS * 1000), body)).join(" ");
    expect(signStandardWebhook({ secrets, id, timestampS, body })).toBe(theirs);
  });
});

function isJson(posted: string): boolean {
  try {
    JSON.parse(posted);
    return true;
  } catch {
    return false;
  }
}
