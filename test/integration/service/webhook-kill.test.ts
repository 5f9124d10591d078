import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import { repeatsIn, WebhookInbox, webhooksHere } from "./webhook-inbox.js";

const env = { LOG_LEVEL: "error", UIS_BOOTSTRAP_API_KEY: "key-of-this-test" };
const models = [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }];
const count = 40;

let served: ServiceFolder;
let inbox: WebhookInbox;
beforeEach(async () => {
  served = await ServiceFolder.create();
  inbox = await WebhookInbox.open({ answer: () => ({ status: 204 }) });
});
afterEach(async () => {
  await served.remove();
  await inbox.close();
});

it("the event of every answered request survives kill -9 right after the answers and is delivered once after the next start (REL-12, WH-32)", async () => {
  // The first process delivers nothing, so that no delivery is in flight when it dies.
  const first = await served.start({ models, webhooks: { ...webhooksHere, deliver: false } }, { env });
  const client = new ServiceClient(first.line.api, env.UIS_BOOTSTRAP_API_KEY);
  await inbox.makeEndpoint({ http: new URL(first.line.api).origin, key: env.UIS_BOOTSTRAP_API_KEY }, { path: "/one" });
  const answers = await Promise.all(Array.from({ length: count }, () => client.chat("m")));
  first.child.kill("SIGKILL");
  await first.exited;
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));

  await served.start({ models, webhooks: webhooksHere }, { env });
  const ids = answers.map(({ headers }) => headers.get("x-request-id") ?? "");
  await eventually(() => ids.every((id) => inbox.hasTaken(id)), "every event is delivered", 30_000);
  expect(new Set(inbox.arrivals.map(({ requestId }) => requestId))).toEqual(new Set(ids));
  expect(repeatsIn(inbox.arrivals).total).toBe(0);
  expect(inbox.forged).toBe(0);
});
