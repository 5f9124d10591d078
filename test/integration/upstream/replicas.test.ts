import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type RunningService, startService } from "../../support/start-service.js";
import type { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { startScriptedUpstream } from "../../support/upstream/scripted-upstream.js";
import { UpstreamCalls } from "../../support/upstream/upstream-calls.js";

const script = { text: "one two", tokens: 2, tokenDelayMs: 0, contextLength: 1_000, embeddingDims: 4 };

let redis: RedisServer;
let upstream: RawUpstream;
let services: RunningService[];
let env: Record<string, string>;
beforeEach(async () => {
  redis = await startRedis();
  upstream = await startScriptedUpstream(script);
  env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_BOOTSTRAP_API_KEY: "key-of-this-test" };
  services = [await startReplica(), await startReplica()];
});
afterEach(async () => {
  await Promise.all(services.map((service) => service.close()));
  await upstream.close();
  await redis.remove();
});

function startReplica(): Promise<RunningService> {
  const state = { redis_url: redis.url, durability: "every-write" };
  return startService({ config: { state, models: [] }, env });
}

function callsOf(replica: number): UpstreamCalls {
  const service = services[replica];
  if (service === undefined) throw new Error(`there is no replica ${replica}`);
  return new UpstreamCalls(service);
}

describe("two replicas with one store", () => {
  it("both use an upstream that is created, changed and deleted through one of them (REL-23)", async () => {
    const [first, second] = [callsOf(0), callsOf(1)];
    const key = "upstream-key-of-this-test";
    await first.create({ name: "gpu", url: upstream.url, kind: "vllm", models: ["chat"] }, { key });
    await eventually(async () => (await second.deployments()).length === 1, "the upstream on the second replica");
    const answer = await second.user.chat("chat");
    expect([answer.status, answer.headers.get("x-uis-deployment")]).toEqual([200, "gpu/chat"]);
    expect(upstream.requests.at(-1)?.headers["authorization"]).toBe(`Bearer ${key}`);

    await second.call("UpdateUpstream", { name: "gpu", models: { values: ["reranker"] } });
    await eventually(async () => (await first.modelIds()).join() === "reranker", "the change on the first replica");

    await first.call("DeleteUpstream", { name: "gpu" });
    await eventually(async () => (await second.modelIds()).length === 0, "the removal on the second replica");
    expect(await second.list()).toEqual([]);
  });

  it("both drain a deployment, and so does one that starts later, until it is put back (REL-22)", async () => {
    const [first, second] = [callsOf(0), callsOf(1)];
    await first.create({ name: "gpu", url: upstream.url, kind: "vllm", models: ["chat"] });
    const stateOn = async (calls: UpstreamCalls) => (await calls.deployments())[0]?.state;
    await eventually(async () => (await stateOn(second)) === "ready", "the upstream on the second replica");
    await second.drain("gpu/chat");
    await eventually(async () => (await stateOn(first)) === "draining", "the drain on the first replica");
    expect((await first.user.chat("chat")).status).toBe(503);
    services.push(await startReplica());
    const third = callsOf(2);
    expect(await stateOn(third)).toBe("draining");
    await third.drain("gpu/chat", false);
    await eventually(async () => (await stateOn(first)) === "ready", "the end of the drain on the first replica");
    expect((await first.user.chat("chat")).status).toBe(200);
  });
});
