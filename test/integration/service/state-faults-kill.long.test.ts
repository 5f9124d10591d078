import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { needsInstalled } from "../../support/missing-program.js";
import { MovableClock } from "../../support/movable-clock.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import { countsOf, killedConfig, killedEnv, killWhileStreaming } from "./killed-stream.js";

let served: ServiceFolder;
let redis: RedisServer | null = null;
let clock: MovableClock | null = null;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(async () => {
  await served.remove();
  await redis?.remove();
  clock?.remove();
  redis = null;
  clock = null;
});

describe("a service on Redis that is killed (kill -9)", () => {
  it("its running request no longer counts for the concurrency limit after its lease, and another replica counts it once (USE-13, state RL-18)", async () => {
    needsInstalled("gcc");
    clock = new MovableClock();
    redis = await startRedis({ env: clock.env });
    const shared = { ...killedEnv, REDIS_URL: redis.url, UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    const dies = await served.start(killedConfig, { env: { ...shared, UIS_DATA_DIR: "dies" } });
    const lives = await served.start(killedConfig, { env: { ...shared, UIS_DATA_DIR: "lives" } });
    const doomed = new ServiceClient(dies.line.api, killedEnv.UIS_BOOTSTRAP_API_KEY);
    expect(await killWhileStreaming(doomed, () => dies.child.kill("SIGKILL"))).toBe("broke");

    const client = new ServiceClient(lives.line.api, killedEnv.UIS_BOOTSTRAP_API_KEY);
    expect((await client.chat("m")).status).toBe(429);
    clock.set(61);
    await eventually(async () => (await client.chat("m")).status === 200, "the concurrency limit admits a request");
    await eventually(async () => (await countsOf(client))["hangs"] === 1, "the lost request is settled", 30_000);
    expect((await countsOf(client))["hangs"]).toBe(1);
  });
});
