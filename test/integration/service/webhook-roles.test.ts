import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { metricLines } from "../../support/metrics-text.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { type ReadyLine, ServiceFolder, type SpawnOptions } from "../../support/service-process.js";

let redis: RedisServer;
let receiver: Receiver;
const opened: ServiceFolder[] = [];
beforeEach(async () => {
  redis = await startRedis();
  receiver = await startReceiver();
});
afterEach(async () => {
  for (const served of opened.splice(0)) await served.remove();
  await receiver.close();
  await redis.remove();
});

const key = "key-of-the-roles-test";
const masterKey = randomBytes(32).toString("base64");

async function start(deliver: boolean): Promise<ReadyLine> {
  const served = await ServiceFolder.create();
  opened.push(served);
  const options: Partial<SpawnOptions> = {
    env: { REDIS_URL: redis.url, UIS_MASTER_KEY: masterKey, UIS_BOOTSTRAP_API_KEY: key },
  };
  const webhooks = { deliver, allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] };
  const models = [{ id: "m", engine: "scripted", scripted: { text: "Yes." } }];
  return (await served.start({ webhooks, models }, options)).line;
}

async function page(ops: string): Promise<string> {
  return await (await fetch(`${ops}/metrics`)).text();
}

describe("two processes over one Redis", () => {
  it("the process that delivers promptly sends the events of the other process's requests (WH-26, WH-35)", async () => {
    const front = await start(false);
    const client = new ServiceClient(front.api, key);
    await client.post("/v1/webhooks", { url: receiver.url, events: ["request.completed"] });
    expect((await client.chat("m")).status).toBe(200);
    expect(await (await fetch(`${front.ops}/debug/state`)).json()).toMatchObject({
      deliveries: { due: 1, in_flight: 0 },
    });

    const worker = await start(true);
    await receiver.until(1);
    const askedAtMs = Date.now();
    expect((await client.chat("m")).status).toBe(200);
    await receiver.until(2);
    // It polls every 200 ms for deliveries of other processes. The bound is five times the target lateness.
    expect((receiver.requests[1]?.arrivedAtMs ?? 0) - askedAtMs).toBeLessThan(5 * 250);
    expect(metricLines(await page(front.ops), "uis_webhook_deliveries_total")).toEqual({});
    expect(metricLines(await page(worker.ops), "uis_webhook_deliveries_total")).toEqual({ '{result="delivered"}': 2 });
  });
});
