import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { WhenAway } from "../../../src/domain/metering/resilient-ledger.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type RunningService, startService } from "../../support/start-service.js";

const models = [{ id: "limited", engine: "scripted", scripted: { text: "One two." } }];
const rate_limits = { models: { limited: { requests_per_minute: 1 } } };

describe("while Redis is unavailable", () => {
  let redis: RedisServer;
  let service: RunningService | null;
  beforeEach(async () => {
    redis = await startRedis();
    service = null;
  });
  afterEach(async () => {
    await service?.close();
    await redis.remove();
  });

  /** Starts a service that serves a request with its key, and then stops its Redis. */
  const startAndLose = async (when_away: WhenAway): Promise<RunningService> => {
    const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    const state = { redis_url: redis.url, durability: "every-write", when_away };
    const started = await startService({ config: { state, models, rate_limits }, env, logLevel: "error" });
    service = started;
    const headers = { authorization: `Bearer ${started.key}` };
    await (await fetch(`${started.api}/models`, { headers })).text();
    await redis.kill();
    return started;
  };
  const chat = async ({ api, key }: RunningService) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const body = JSON.stringify({ model: "limited", messages: [{ role: "user", content: "Hi" }] });
    const answer = await fetch(`${api}/chat/completions`, { method: "POST", headers, body });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as object };
  };

  it("each process applies its share of the limit, and sets a header (state RL-16)", async () => {
    const away = await startAndLose("local");
    const first = await chat(away);
    expect([first.status, first.headers.get("x-ratelimit-degraded")]).toEqual([200, "1"]);
    const second = await chat(away);
    expect([second.status, second.headers.get("x-ratelimit-degraded")]).toEqual([429, "1"]);
  });

  it("with `deny` every request is rejected with 503 and Retry-After (state RL-16)", async () => {
    const away = await startAndLose("deny");
    for (let number = 0; number < 5; number += 1) {
      const { status, headers, body } = await chat(away);
      expect(status).toBe(503);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
      expect(body).toMatchObject({ error: { code: "storage_unavailable" } });
    }
  });

  it("with `allow` every request is admitted, also above the limit (state RL-16)", async () => {
    const away = await startAndLose("allow");
    for (let number = 0; number < 5; number += 1) {
      const { status, headers } = await chat(away);
      expect([status, headers.get("x-ratelimit-degraded")]).toEqual([200, "1"]);
    }
  });

  it("the service stays ready, and the details of /ready show that the store does not answer (REL-15)", async () => {
    const { ops } = await startAndLose("local");
    const ready = await fetch(`${ops}/ready`);
    expect(ready.status).toBe(200);
    expect(await ready.json()).toMatchObject({
      status: "ready",
      state: { kind: "redis", ok: false, warnings: [expect.stringContaining("The store cannot be used")] },
    });
  });
});
