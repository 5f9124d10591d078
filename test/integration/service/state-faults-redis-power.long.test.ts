import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { needsInstalled } from "../../support/missing-program.js";
import { PoweredRedis, type Span } from "../../support/redis/powered-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import { type Answer, startSteadyLoad } from "../../support/steady-load.js";
import { type CreatedKey, KeyChurn } from "./key-churn.js";

/** Times of the power cuts, which are all within one window of the limit, a minute. */
const times = { cuts: 6, onMs: 5_000, offMs: 1_000, perSecond: 50 };
/** Maximum time between two syncs of Redis. Redis aims at one second; the maximum is five times that for busy machines. */
const unsyncedMsMax = 5_000;
/** If a power cut occurs at least this long after a sync, it loses acknowledged writes. */
const unsyncedMsMin = 300;
const limit = 5;
const keysTried = 10;
const admin = "admin-token-of-this-test";
const key = "key-of-this-test";
const config = {
  models: ["free", "limited"].map((id) => ({ id, engine: "scripted", scripted: { text: "three words here" } })),
  rate_limits: { models: { limited: { requests_per_minute: limit } } },
};

let served: ServiceFolder;
let redis: PoweredRedis | null = null;
beforeEach(async (context) => {
  if (process.platform !== "linux") context.skip("the preloaded library is made for Linux");
  needsInstalled("gcc");
  served = await ServiceFolder.create();
});
afterEach(async () => {
  await served?.remove();
  await redis?.server.remove();
  redis = null;
});

/** All acknowledgements of a service, at the time when Redis was restarted after the last power cut. */
interface Outcome {
  readonly answers: readonly Answer[];
  readonly keys: KeyChurn;
  readonly client: ServiceClient;
  /** Time spans in which Redis may have lost acknowledged writes. */
  readonly unsynced: readonly Span[];
  readonly api: string;
}

/** Sends requests and changes keys at a steady rate, with power cuts in between. */
async function surviveCuts(aof: "everysec" | "always"): Promise<Outcome> {
  redis = await PoweredRedis.start(served.folder, aof);
  const env = {
    LOG_LEVEL: "error",
    REDIS_URL: redis.server.url,
    UIS_ADMIN_TOKEN: admin,
    UIS_BOOTSTRAP_API_KEY: key,
    UIS_MASTER_KEY: randomBytes(32).toString("base64"),
  };
  const { line } = await served.start(config, { env });
  const rates = { free: times.perSecond, limited: limit };
  const load = startSteadyLoad({ services: [new URL(line.api).origin], key, rates });
  const keys = new KeyChurn(line.api, admin);
  const unsynced: Span[] = [];
  for (let cut = 1; cut <= times.cuts; cut += 1) {
    await delay(times.onMs);
    if (aof === "everysec") await redis.untilUnsynced(unsyncedMsMin);
    await keys.revokeOne();
    unsynced.push(await redis.cutPower());
    await delay(times.offMs);
    await redis.powerUp();
  }
  await delay(times.onMs);
  await keys.end();
  const answers = await load.end();
  const spool = join(line.data_dir, "spool");
  await eventually(async () => (await readdir(spool)).length === 0, "the spool is empty", 20_000);
  return { answers, keys, client: new ServiceClient(line.api, key), unsynced, api: line.api };
}

/** Requests and tokens counted today and yesterday. */
async function usageOf(client: ServiceClient): Promise<{ requests: number; tokens: number }> {
  const range = `start_time=${Math.floor(Date.now() / 1_000) - 86_400}`;
  const { json } = await client.get(`/v1/usage?bucket_width=1d&limit=3&${range}`);
  const sum = { requests: 0, tokens: 0 };
  for (const { results } of json["data"] as { results: Record<string, number>[] }[]) {
    for (const { num_model_requests = 0, input_tokens = 0, output_tokens = 0 } of results) {
      sum.requests += num_model_requests;
      sum.tokens += input_tokens + output_tokens;
    }
  }
  return sum;
}

/** The distinct response statuses of these keys. */
async function statusesOf(api: string, keys: readonly CreatedKey[]): Promise<number[]> {
  const answers = keys.map(({ secret }) => new ServiceClient(api, secret).get("/v1/models"));
  return [...new Set((await Promise.all(answers)).map(({ status }) => status))];
}

/**
 * Expects that no request failed, that limits held except for requests that were `forgotten`, and that revoked keys are
 * still revoked.
 */
async function expectRightAnswers({ answers, keys, api }: Outcome, forgotten: (answer: Answer) => boolean) {
  const [free, limited] = ["free", "limited"].map((model) => answers.filter((answer) => answer.model === model));
  expect(new Set(free?.map(({ status }) => status))).toEqual(new Set([200]));
  const admitted = limited?.filter(({ status }) => status === 200) ?? [];
  expect(admitted.length).toBeGreaterThan(0);
  expect(admitted.length).toBeLessThanOrEqual(limit + admitted.filter(forgotten).length);
  await eventually(async () => {
    const stored = await keys.stored();
    return keys.revoked.every(({ id }) => stored.get(id)?.revokedAt !== undefined);
  }, "lost revocations are repeated");
  expect(await statusesOf(api, keys.revoked)).toEqual([401]);
}

const endOf = ({ sentAtMs, tookMs }: Answer) => sentAtMs + tookMs;

/** Whether a call was answered between the last sync before a cut and the cut. Its answer may be read shortly after the cut. */
const isUnsynced = (cuts: readonly Span[], sentAtMs: number, endedAtMs: number) =>
  cuts.some(({ fromMs, toMs }) => fromMs < endedAtMs && sentAtMs <= toMs);

describe("a power cut of Redis's machine", () => {
  it("appendfsync everysec: loses only writes since the last sync, about a second, and the service continues", {
    timeout: 120_000,
  }, async () => {
    const outcome = await surviveCuts("everysec");
    const { answers, keys, client, unsynced, api } = outcome;
    expect(Math.max(...unsynced.map(({ fromMs, toMs }) => toMs - fromMs))).toBeLessThan(unsyncedMsMax);
    const isAtRisk = (answer: Answer) => isUnsynced(unsynced, answer.sentAtMs, endOf(answer));
    const stored = await keys.stored();
    const lost = keys.created.filter(({ id }) => !stored.has(id));
    const kept = keys.created.filter(({ id }) => stored.has(id) && !keys.revoked.some((each) => each.id === id));
    expect(lost.length, "keys lost in power cuts").toBeGreaterThan(0);
    const unexplained = lost.filter((each) => !isUnsynced(unsynced, each.askedAtMs, each.acknowledgedAtMs));
    expect(unexplained, JSON.stringify(unsynced)).toEqual([]);
    expect(await statusesOf(api, lost.slice(0, keysTried))).toEqual([401]);
    expect(await statusesOf(api, kept.slice(-keysTried))).toEqual([200]);

    const answered = answers.filter(({ status }) => status === 200);
    const atRisk = answered.filter(isAtRisk).length;
    const usage = await usageOf(client);
    expect(usage.requests).toBeLessThan(answered.length);
    expect(usage.requests).toBeGreaterThanOrEqual(answered.length - atRisk);
    expect(usage.tokens).toBe(usage.requests * (answered[0]?.tokens ?? 0));
    await expectRightAnswers(outcome, isAtRisk);
  });

  it("appendfsync always: loses no acknowledged write, and the service continues (USE-11)", {
    timeout: 120_000,
  }, async () => {
    const outcome = await surviveCuts("always");
    const { answers, keys, client, api } = outcome;
    const stored = await keys.stored();
    expect(keys.created.filter(({ id }) => !stored.has(id))).toEqual([]);
    expect(await statusesOf(api, keys.created.slice(-keysTried))).toEqual([200]);

    const answered = answers.filter(({ status }) => status === 200);
    const tokens = answered.reduce((sum, answer) => sum + answer.tokens, 0);
    expect(await usageOf(client)).toEqual({ requests: answered.length, tokens });
    await expectRightAnswers(outcome, () => false);
  });
});
