import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import { version } from "../../../src/contract/version.js";
import { requestCompleted } from "../../../src/domain/events/event.js";
import { attemptHeaders } from "../../../src/domain/webhooks/delivery-attempts.js";
import { signStandardWebhook } from "../../../src/lib/webhook-signature.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { vectors } from "./vectors.js";

const secretOf = (letter: string) => `whsec_${Buffer.alloc(32, letter).toString("base64")}`;
const [current, previous, foreign] = [secretOf("c"), secretOf("p"), secretOf("f")];
const facts = { requestId: "req_1", model: "модель-é-😀", promptTokens: 1, completionTokens: 2, latencyMs: 3 };
const { id, body } = requestCompleted(facts, Date.UTC(2026, 10, 21));
const nowS = () => Math.floor(Date.now() / 1000);

/** A delivery as a receiver gets it while its secret is rotated, and what the receiver must say to it. */
interface Case {
  readonly what: string;
  readonly secret: string;
  readonly body: string;
  readonly timestampS: number;
  readonly accepted: boolean;
}

const cases = (): readonly [Case, ...Case[]] => [
  { what: "the new secret", secret: current, body, timestampS: nowS(), accepted: true },
  { what: "the old secret", secret: previous, body, timestampS: nowS(), accepted: true },
  { what: "a minute ago", secret: current, body, timestampS: nowS() - 60, accepted: true },
  { what: "another secret", secret: foreign, body, timestampS: nowS(), accepted: false },
  { what: "a changed body", secret: current, body: body.replace("3", "4"), timestampS: nowS(), accepted: false },
  { what: "301 s ago", secret: current, body, timestampS: nowS() - 301, accepted: false },
];

const secrets = [current, previous];
const headersAt = (timestampS: number) =>
  attemptHeaders({ secrets, eventId: id, deliveryId: "dlv_1", attemptNumber: 2, body, atMs: timestampS * 1000 + 999 });
const serviceSignature = ({ timestampS }: Case) => headersAt(timestampS)["service-signature"] ?? "";
const standardHeaders = ({ timestampS }: Case) => headersAt(timestampS);
const expected = (all: readonly Case[]) => all.map(({ what, accepted }) => [what, accepted]);

async function accepts(check: () => unknown): Promise<boolean> {
  try {
    await check();
    return true;
  } catch {
    return false;
  }
}

/** `check` throws, or rejects, for what it refuses. */
async function expectVerdicts(check: (one: Case) => unknown): Promise<void> {
  const all = cases();
  const answers = await Promise.all(all.map(async (one) => [one.what, await accepts(() => check(one))]));
  expect(answers).toEqual(expected(all));
}

describe("Service-Signature is verified unchanged (WH-15, WH-16)", () => {
  const { webhooks } = new Stripe("sk_test_x");

  it("by Stripe's package of npm", async () => {
    await expectVerdicts((one) => webhooks.constructEvent(one.body, serviceSignature(one), one.secret));
    const event = webhooks.constructEvent(body, serviceSignature(cases()[0]), current);
    expect(JSON.parse(JSON.stringify(event))).toEqual(JSON.parse(body));
  });

  it("by Stripe's package of npm on every vector whose body is JSON, but for a time in the future, which it does not refuse", () => {
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

  // Needs python3 with venv, and its package index on the first run.
  it.skipIf(!hasPython)("by Stripe's package of PyPI", { timeout: 300_000 }, async () => {
    const python = await pythonVenv("test/conformance/webhooks/python/requirements.txt");
    const all = cases();
    const child = spawn(python, ["test/conformance/webhooks/python/stripe_check.py"]);
    child.stdin.end(JSON.stringify(all.map((one) => ({ ...one, header: serviceSignature(one) }))));
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(stderr).toBe("");
    expect(all.map(({ what }, i) => [what, (JSON.parse(stdout) as boolean[])[i]])).toEqual(expected(all));
  });
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

  it("beside what tells the delivery, the attempt and who sends it", () => {
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

  it("as standardwebhooks itself would sign them", () => {
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
