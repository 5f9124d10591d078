import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";

const limit = 30;
const key = "key-of-this-test";
const listRequestLogs = "unified.admin.v1.RequestLogService/ListRequestLogs";

let redis: RedisServer;
let services: RunningService[];
beforeEach(async () => {
  redis = await startRedis();
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_BOOTSTRAP_API_KEY: key };
  const config = {
    state: { redis_url: redis.url, durability: "every-write" },
    rate_limits: { default_account: { requests_per_minute: limit } },
    requests: { keep: limit - 5 },
  };
  services = [];
  for (let replica = 0; replica < 2; replica += 1) services.push(await startService({ config, env }));
});
afterEach(async () => {
  await Promise.all(services.map((service) => service.close()));
  await redis.remove();
});

it("a limit shared by two replicas admits exactly its number of requests (REL-16, state RL-3)", async () => {
  const asked = Array.from({ length: 2 * limit }, (_, number) => {
    const { api } = services[number % services.length] as RunningService;
    return new ServiceClient(api, key).chat("test-chat");
  });
  const answers = await Promise.all(asked);
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(limit);
  expect(statuses.filter((status) => status === 429)).toHaveLength(limit);
  expect(answers.filter(({ headers }) => headers.has("x-ratelimit-degraded"))).toEqual([]);
  // Both replicas write into one request log, whose bound applies to the requests of both together.
  const lists = services.map(({ http, adminToken }) => new ServiceClient(http, adminToken));
  let logs: unknown[] = [];
  await eventually(async () => {
    logs = await Promise.all(lists.map(async (client) => (await client.rpc(listRequestLogs)).json["requestLogs"]));
    return isDeepStrictEqual(logs[0], logs[1]) && Array.isArray(logs[0]) && logs[0].length === limit - 5;
  }, "both replicas list the same requests");
  const answered = new Set(answers.map(({ headers }) => headers.get("x-request-id")));
  expect((logs[0] as { id: string }[]).filter(({ id }) => !answered.has(id))).toEqual([]);
});
