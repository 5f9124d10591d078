import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { MovableClock } from "../../support/movable-clock.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { needsProgram } from "../embedded/programs.js";
import { Served } from "./served.js";

let served: Served;
let redis: RedisServer | null = null;
let clock: MovableClock | null = null;
beforeEach(async () => {
  served = await Served.in();
});
afterEach(async () => {
  await served.remove();
  await redis?.remove();
  clock?.remove();
  redis = null;
  clock = null;
});

const env = { LOG_LEVEL: "error", UIS_BOOTSTRAP_API_KEY: "key-of-this-test" };
const oneAtATime = { concurrency: 1 };
const config = {
  models: [
    { id: "m", engine: "scripted", scripted: { text: "three words here" } },
    {
      id: "hangs",
      engine: "scripted",
      scripted: { text: "one two end more", token_delay_ms: 50, hang_after_tokens: 3 },
    },
  ],
  rate_limits: { default_key: oneAtATime },
};

/** How a stream ends whose service is killed some tokens after it has begun. */
async function killWhileStreaming(client: ServiceClient, kill: () => void): Promise<"ended" | "broke"> {
  const stream = await client.stream("hangs");
  let text = "";
  while (!text.includes("end")) text += Buffer.from((await stream.read()).value ?? []).toString();
  kill();
  try {
    while (!(await stream.read()).done) {}
    return "ended";
  } catch {
    return "broke";
  }
}

/** Requests that were counted, by model. */
async function countsOf(client: ServiceClient): Promise<Record<string, number>> {
  const range = `start_time=${Math.floor(Date.now() / 1_000) - 86_400}`;
  const { json } = await client.get(`/v1/usage?bucket_width=1d&limit=3&group_by=model&${range}`);
  const buckets = json["data"] as { results: { model: string; num_model_requests: number }[] }[];
  return Object.fromEntries(
    buckets.flatMap(({ results }) => results.map((row) => [row.model, row.num_model_requests])),
  );
}

describe("a service that is killed (kill -9)", () => {
  it("embedded: its streams break, and the next start frees, keeps and counts all (USE-13, state RL-18, state RL-20)", async () => {
    const first = await served.start(config, { env });
    const client = new ServiceClient(first.line.api, env.UIS_BOOTSTRAP_API_KEY);
    expect((await client.chat("m")).status).toBe(200);
    expect(await killWhileStreaming(client, () => first.child.kill("SIGKILL"))).toBe("broke");
    await first.exited;

    const second = await served.start(config, { env });
    const again = new ServiceClient(second.line.api, env.UIS_BOOTSTRAP_API_KEY);
    expect((await again.chat("m")).status).toBe(200);
    await eventually(async () => (await countsOf(again))["hangs"] === 1, "the lost request is settled");
    expect(await countsOf(again)).toEqual({ m: 2, hangs: 1 });
  });

  it("Redis: its place is free when its lease has run out, and another replica counts it once (USE-13, state RL-18)", async (context) => {
    needsProgram(context, "gcc", "gcc");
    clock = new MovableClock();
    redis = await startRedis({ env: clock.env });
    const shared = { ...env, REDIS_URL: redis.url, UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    const dies = await served.start(config, { env: { ...shared, UIS_DATA_DIR: "dies" } });
    const lives = await served.start(config, { env: { ...shared, UIS_DATA_DIR: "lives" } });
    const doomed = new ServiceClient(dies.line.api, env.UIS_BOOTSTRAP_API_KEY);
    expect(await killWhileStreaming(doomed, () => dies.child.kill("SIGKILL"))).toBe("broke");

    const client = new ServiceClient(lives.line.api, env.UIS_BOOTSTRAP_API_KEY);
    expect((await client.chat("m")).status).toBe(429);
    clock.set(61);
    await eventually(async () => (await client.chat("m")).status === 200, "the place is free");
    await eventually(async () => (await countsOf(client))["hangs"] === 1, "the lost request is settled", 30_000);
    expect((await countsOf(client))["hangs"]).toBe(1);
  });
});
