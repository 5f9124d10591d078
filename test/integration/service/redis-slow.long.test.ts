import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { openSlowLink, type SlowLink } from "../../support/redis/slow-link.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceFolder } from "../../support/service-process.js";

const models = [{ id: "m", engine: "scripted", scripted: { text: "One two." } }];

let redis: RedisServer;
let link: SlowLink;
let served: ServiceFolder;
beforeEach(async () => {
  served = await ServiceFolder.create();
  redis = await startRedis();
  link = await openSlowLink(Number(new URL(redis.url).port));
  link.delayMs = 300;
});
afterEach(async () => {
  await served.remove();
  await link.close();
  await redis.remove();
});

it("with a Redis that always takes 300 ms, a service starts, accepts unknown keys, and stores and reads usage (E-28)", {
  timeout: 120_000,
}, async () => {
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), REDIS_URL: link.url };
  const { line, ops } = await served.start({ models }, { env });
  const { api } = line;
  const headers = { authorization: `Bearer ${line.api_key?.secret}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] });
  const requests = 30;
  for (let number = 0; number < requests; number += 1) {
    const answer = await fetch(`${api}/chat/completions`, { method: "POST", headers, body });
    expect([answer.status, await answer.json()]).toMatchObject([200, { object: "chat.completion" }]);
  }
  const ready = await fetch(`${ops}/ready`);
  expect([ready.status, await ready.json()]).toMatchObject([200, { state: { kind: "redis", ok: true } }]);
  const now = Math.floor(Date.now() / 1_000);
  await eventually(
    async () => {
      const usage = await fetch(`${api}/usage?start_time=${now - 86_400}&end_time=${now + 86_400}`, { headers });
      expect(usage.status).toBe(200);
      const page = (await usage.json()) as { data: { results: { num_model_requests: number }[] }[] };
      const counted = page.data.flatMap(({ results }) => results.map((result) => result.num_model_requests));
      return counted.reduce((sum, each) => sum + each, 0) === requests;
    },
    "all usage is stored",
    60_000,
  );
});
