import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Answer, startChatClients } from "../../support/chat-clients.js";
import { uis } from "../../support/cli-run.js";
import { eventually } from "../../support/eventually.js";
import { seededPick } from "../../support/random-numbers.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import { answered, seenBy } from "./kill-rounds.js";
import { totalOf, usageOverRest } from "./usage-sums.js";
import {
  chanceOf,
  haveAllEnded,
  listDeliveries,
  oddlyNumbered,
  repeatsIn,
  toldTwoWays,
  WebhookInbox,
  webhooksHere,
} from "./webhook-inbox.js";

const answersPerStep = 600;
const clientCount = 12;
const endedWithinMs = 60_000;
const adminToken = randomBytes(16).toString("hex");
const models = [
  { id: "test", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: 8, token_delay_ms: 4 } },
];
const paths = ["/one", "/two"];
/** The first retry waits long enough to be due only after the move. */
const webhooks = { ...webhooksHere, retry_delays: ["20s", "1s", "2s"] };

let root: string;
let redis: RedisServer;
let inbox: WebhookInbox;
const started: ServiceProcess[] = [];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "uis-move-"));
  redis = await startRedis({ aof: "always" });
  inbox = await WebhookInbox.open({
    answer: (deliveryId, attempt) => ({ status: attempt === 1 && chanceOf(deliveryId) < 32 ? 503 : 204 }),
  });
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((service) => service.kill()));
  await inbox.close();
  await redis.remove();
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string, state: object, env: Readonly<Record<string, string>>): Promise<ServiceProcess> {
  const folder = join(root, name);
  const service = await startServiceProcess({ folder, config: { state, models, webhooks }, env });
  started.push(service);
  return service;
}

it("moving an embedded installation to Redis under load neither loses nor duplicates usage or deliveries (USE-21)", {
  timeout: 300_000,
}, async (context) => {
  const pick = seededPick(7);
  const old = await start("old", {}, { UIS_ADMIN_TOKEN: adminToken });
  for (const path of paths) await inbox.makeEndpoint(old, { path });
  const load = (service: (number: number) => ServiceProcess) =>
    startChatClients({
      count: clientCount,
      service,
      key: old.key,
      question: () => ({ model: "test", isStream: pick(2) === 0, leaves: false, maxTokens: 8 }),
      pauseMs: 20,
    });
  const dataDir = old.line.data_dir;
  const copy = async (...more: readonly string[]) => {
    const words = ["state", "copy", "--to", redis.url, "--json", ...more];
    const { code, stdout, stderr } = await uis(words, { env: { UIS_DATA_DIR: dataDir, UIS_ADMIN_TOKEN: adminToken } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return JSON.parse(stdout) as { readonly copied: Readonly<Record<string, number>> };
  };
  const before = load(() => old);
  const counts: number[] = [];
  for (let run = 0; run < 3; run += 1) {
    await answered(before.answers, answersPerStep);
    counts.push((await copy()).copied["deliveries"] ?? 0);
  }
  await before.end();
  expect(await old.stop()).toBe(0);
  const last = await copy();
  expect(counts).toEqual(counts.toSorted((a, b) => a - b));
  expect(last.copied["events"] ?? 0).toBeLessThan(before.answers.length);
  await copy("--check");
  const arrivedBefore = inbox.arrivals.length;

  const masterKey = (await readFile(join(dataDir, "master.key"), "utf8")).trim();
  const env = { UIS_ADMIN_TOKEN: adminToken, UIS_MASTER_KEY: masterKey };
  const [one, two] = [
    await start("one", { redis_url: redis.url }, env),
    await start("two", { redis_url: redis.url }, env),
  ];
  // The services use the copied key and create no new first key.
  expect([one.key, two.key]).toEqual(["", ""]);
  const after = load((number) => (number % 2 === 0 ? one : two));
  await answered(after.answers, answersPerStep);
  await after.end();

  const answers: readonly Answer[] = [...before.answers, ...after.answers];
  const { whole, broken } = seenBy(answers);
  await eventually(() => whole.every((id) => inbox.hasTaken(id)), "every event arrives", endedWithinMs);
  await eventually(() => haveAllEnded(one.http, adminToken), "all deliveries have ended", endedWithinMs);
  const deliveries = await listDeliveries(one.http, adminToken);
  const usage = totalOf(await usageOverRest(one, old.key));
  expect([await one.stop(), await two.stop()]).toEqual([0, 0]);

  const repeats = repeatsIn(inbox.arrivals);
  await context.annotate(
    `${answers.length} requests, ${before.answers.length} before the move; deliveries in the copies ${counts.join("+")} and ` +
      `${last.copied["deliveries"]}; ${inbox.arrivals.length} arrivals, ${arrivedBefore} before; ${repeats.total} repeats`,
  );
  expect(broken).toEqual([]);
  expect(usage).toEqual({
    requests: answers.length,
    promptTokens: answers.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
    completionTokens: answers.reduce((sum, { completionTokens }) => sum + completionTokens, 0),
  });
  expect(deliveries.length).toBe(answers.length * paths.length);
  expect(deliveries.filter(({ state }) => state !== "delivered")).toEqual([]);
  expect(oddlyNumbered(deliveries)).toEqual([]);
  expect(toldTwoWays(inbox.arrivals)).toEqual([]);
  expect(repeats.total).toBe(0);
  // Some of the retries are made only after the move.
  expect(inbox.arrivals.slice(arrivedBefore).filter(({ attempt }) => attempt === 2).length).toBeGreaterThan(0);
  expect(inbox.forged).toBe(0);
});
