import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadConfig } from "../../../src/app/config/load-config.js";
import { eventually } from "../../support/eventually.js";
import { metricLines } from "../../support/metrics-text.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";

interface WorkersState {
  readonly workers: readonly { readonly pid: number; readonly state: string }[];
}

const limit = 30;
const key = "key-of-this-test";
let redis: RedisServer;
let folder: ServiceFolder;
let service: ServiceProcess;

beforeAll(async () => {
  redis = await startRedis();
  folder = await ServiceFolder.create();
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_BOOTSTRAP_API_KEY: key };
  const config = {
    server: { workers: 2 },
    state: { redis_url: redis.url },
    models: [{ id: "four", engine: "scripted", scripted: { text: "tick", tokens: 4 } }],
    rate_limits: { default_account: { requests_per_minute: limit } },
  };
  service = await folder.start(config, { env });
});
afterAll(async () => {
  await folder.remove();
  await redis.remove();
});

const workers = async () => ((await service.debugState()) as unknown as WorkersState).workers;
const pageOf = async (path: string): Promise<string> => await (await fetch(service.ops + path)).text();

it("two workers answer on one port with one exact limit, and metrics are sums over both (REL-27, REL-16)", async () => {
  // The client reads bodies to their end, so that connections are reused.
  const client = new ServiceClient(service.line.api, key);
  const answers = await Promise.all(Array.from({ length: 2 * limit }, () => client.chat("four")));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(limit);
  expect(statuses.filter((status) => status === 429)).toHaveLength(limit);
  const counts = metricLines(await pageOf("/metrics"), "uis_requests_total");
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(2 * limit);
  const answering = new Set(service.logs().map(({ worker }) => worker));
  await eventually(() => {
    for (const { worker } of service.logs()) answering.add(worker);
    return answering.has(1) && answering.has(2);
  }, "both workers log requests");
});

it("a killed worker is replaced while the other one answers (REL-28)", async () => {
  const [first] = await workers();
  process.kill(first?.pid ?? 0, "SIGKILL");
  await eventually(async () => (await workers()).every(({ pid }) => pid !== first?.pid), "the worker has ended");
  expect((await fetch(`${service.http}/health`)).status).toBe(200);
  await eventually(async () => {
    const now = await workers();
    return now.length === 2 && now.every(({ state }) => state === "ready");
  }, "the worker is replaced");
  const counts = metricLines(await pageOf("/metrics"), "uis_requests_total");
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(2 * limit);
});

it("a stop signal to the first process drains all workers, and the exit code is 0 (REL-27)", async () => {
  expect(await service.stop()).toBe(0);
  expect(service.logs().filter(({ msg }) => msg === "stopping")).toHaveLength(2);
});

it("a configuration with workers that cannot share state or models is rejected", async () => {
  const load = (config: object) => {
    const flags = Object.entries(config).map(([name, value]) => ({ path: name.split("."), value, from: "test" }));
    return loadConfig({ env: {}, cwd: folder.folder, read: { file: null, text: "" }, flags });
  };
  const scripted = [{ id: "a", engine: "scripted" }];
  await expect(load({ "server.workers": 2, models: scripted })).rejects.toThrow(/REDIS_URL/);
  const redisUrl = { "server.workers": "auto", "state.redis_url": "redis://127.0.0.1" };
  await expect(load({ ...redisUrl, models: [{ id: "b", engine: "llama" }] })).rejects.toThrow(/embedded engine \(b\)/);
  await expect(load(redisUrl)).rejects.toThrow(/default models/);
  await expect(load({ ...redisUrl, models: scripted })).resolves.toBeDefined();
});
