import { request } from "node:http";
import { expect, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { startFleet } from "../../support/fleet/start-fleet.js";
import { ServiceClient } from "../../support/service-client.js";
import type { RunningService } from "../../support/start-service.js";

const models = [
  { id: "hangs", engine: "scripted", slots: 1_000, scripted: { text: "one two", hang_after_tokens: 1 } },
  { id: "paced", engine: "scripted", slots: 10, scripted: { tokens: 100_000, token_delay_ms: 20 } },
];
/** More than the 1,000 stream resets that Node accepts on a connection in a short time. */
const cancels = 1_500;
const atOnce = 100;

it("many clients that disconnect do not break the gateway's connection to its core (REL-2, REL-24)", async () => {
  const fleet = await startFleet({ config: { models } });
  onTestFinished(() => fleet.close());
  const { gateway } = fleet;
  const [core] = fleet.cores as [RunningService];
  const bystander = await new ServiceClient(gateway.http, gateway.key).stream("paced");
  let text = "";
  const reading = (async () => {
    for (let part = await bystander.read(); !part.done; part = await bystander.read())
      text += Buffer.from(part.value).toString();
  })();
  for (let sent = 0; sent < cancels; sent += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, () => leaveAfterFirstByte(gateway)));
  }
  await eventually(async () => (await core.debugState()).requests.running === 1, "only the bystander runs");
  const before = text.length;
  await eventually(() => text.length > before + 1_000 || text.includes('"error"'), "the bystander continues");
  expect(text).not.toContain('"error"');
  await bystander.cancel();
  await reading;
});

function leaveAfterFirstByte({ http, key }: RunningService): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const sent = request(`${http}/v1/chat/completions`, { method: "POST", agent: false, headers }, (response) => {
      response.once("data", () => {
        sent.destroy();
        if (response.statusCode === 200) resolve();
        else reject(new Error(`status ${response.statusCode}`));
      });
      response.on("error", () => {});
    });
    sent.on("error", () => {});
    sent.end(JSON.stringify({ model: "hangs", stream: true, messages: [{ role: "user", content: "Hi" }] }));
  });
}
