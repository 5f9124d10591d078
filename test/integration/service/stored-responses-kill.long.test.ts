import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceFolder } from "../../support/service-process.js";
import { killWhileStoring } from "./killed-responses.js";

const rounds = 20;

let served: ServiceFolder;
let redis: RedisServer | null = null;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(async () => {
  await served.remove();
  await redis?.remove();
  redis = null;
});

describe("responses that were answered as stored", { timeout: 600_000 }, () => {
  it("survive each kill -9 of a service on the embedded file (RSP-25)", async () => {
    expect(await killWhileStoring(served, rounds)).toBeGreaterThanOrEqual(rounds * 100);
  });

  it("survive each kill -9 of a service on Redis (RSP-25)", async () => {
    redis = await startRedis({ aof: "always" });
    const env = { REDIS_URL: redis.url, UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    expect(await killWhileStoring(served, rounds, env)).toBeGreaterThanOrEqual(rounds * 100);
  });
});
