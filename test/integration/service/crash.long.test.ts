import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { leaseMs } from "../../../src/domain/metering/lease-keeper.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { type Question, startChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import { seededPick } from "../../support/random-numbers.js";
import { keepHistory, readLedgerHistory } from "../../support/redis/ledger-history.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import { lostInLogs, seenBy, Victim } from "./kill-rounds.js";
import { totalOf, type UsageSum, usageOverRest } from "./usage-sums.js";

const roundCount = 20;
/** Number of answers before each kill. The rounds have more than 10,000 answers in total. */
const answersPerRound = 520;
const clientCount = 16;
const sweptWithinMs = leaseMs + 60_000 + 30_000;
const testMs = 600_000;
/** Tokens of every complete answer. */
const tokens = { prompt: 2, completion: 8 } as const;
const models = [
  { id: "quick", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: tokens.completion } },
  /** A slow request, which is almost always running when the process dies. */
  {
    id: "slow",
    engine: "scripted",
    slots: 64,
    scripted: { text: "tick", tokens: tokens.completion, token_delay_ms: 6 },
  },
];

let root: string;
let redis: RedisServer | null = null;
const started: ServiceProcess[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "uis-kill-"));
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((service) => service.kill()));
  await redis?.remove();
  redis = null;
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string, state: object, env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  const service = await startServiceProcess({ folder: join(root, name), config: { state, models }, env });
  started.push(service);
  return service;
}

function questions(pick: (count: number) => number): () => Question {
  return () => {
    const model = pick(2) === 0 ? "quick" : "slow";
    return { model, isStream: pick(2) === 0, leaves: false, maxTokens: tokens.completion };
  };
}

/** Expected sums of an account with `settled` settled requests, of which `lost` were lost without known usage. */
function sumsOf(settled: number, lost: number): UsageSum {
  const whole = settled - lost;
  return {
    requests: settled,
    promptTokens: whole * tokens.prompt,
    completionTokens: whole * tokens.completion,
  };
}

describe("a service that is killed under load", () => {
  it("embedded: completed requests are counted once, and interrupted ones are settled by the next start (USE-1, USE-13)", {
    timeout: testMs,
  }, async (context) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    const victim = new Victim(() => start("one", {}));
    const { key } = await victim.start();
    const service = () => victim.service;
    const clients = startChatClients({ count: clientCount, service, key, question: questions(pick), pauseMs: 20 });
    await victim.dieOften(clients, { rounds: roundCount, answersPerRound, pick });
    await clients.end();
    const usage = totalOf(await usageOverRest(victim.service as ServiceProcess, key));
    expect(await victim.service?.stop()).toBe(0);

    const { settled, live } = readFile();
    const { whole, broken } = seenBy(clients.answers);
    const lost = lostInLogs(started);
    const uncounted = clients.answers.filter(
      ({ outcome, requestId }) => outcome === "broken" && requestId !== null && !settled.has(requestId),
    );
    await context.annotate(
      `embedded: ${roundCount} kills, ${clients.answers.length} requests, ${whole.length} whole, ${broken.length} cut ` +
        `after their first byte, ${lost.length} settled by a sweep, ${uncounted.length} not counted; seed ${seed}`,
    );
    expect(whole.filter((id) => !settled.has(id))).toEqual([]);
    expect(lost.filter((id) => !settled.has(id) || whole.includes(id))).toEqual([]);
    expect(new Set(lost).size).toBe(lost.length);
    expect(lost.length).toBeGreaterThan(0);
    expect(live).toEqual([]);
    expect(uncounted).toEqual([]);
    expect(usage).toEqual(sumsOf(settled.size, lost.length));
  });

  it("Redis: completed requests are counted once, and any process settles interrupted ones once after their lease (USE-1, USE-13, state RL-18)", {
    timeout: testMs + sweptWithinMs,
  }, async (context) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    redis = await startRedis({ args: keepHistory });
    const state = { redis_url: redis.url };
    const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    const survivor = await start("survivor", state, env);
    const victim = new Victim(() => start("victim", state, env));
    await victim.start();
    const { key } = survivor;
    const service = (number: number) => (number % 2 === 0 ? survivor : victim.service);
    const clients = startChatClients({ count: clientCount, service, key, question: questions(pick), pauseMs: 20 });
    await victim.dieOften(clients, { rounds: roundCount, answersPerRound, pick });
    await clients.end();
    await eventually(() => hasNoLeases(redis as RedisServer), "all leases have ended", sweptWithinMs);
    const usage = totalOf(await usageOverRest(survivor, key));
    expect([await survivor.stop(), await victim.service?.stop()]).toEqual([0, 0]);

    const { admittedAtMs, settled, swept } = await readLedgerHistory(redis, leaseMs);
    const { whole, broken } = seenBy(clients.answers);
    const degraded = clients.answers.filter(({ isDegraded }) => isDegraded).length;
    await context.annotate(
      `Redis: ${roundCount} kills, ${clients.answers.length} requests, ${whole.length} whole, ${broken.length} cut after ` +
        `their first byte, ${swept.size} settled by a sweep, ${degraded} admitted without the store; seed ${seed}`,
    );
    expect(whole.filter((id) => !settled.has(id))).toEqual([]);
    expect([...settled].filter(([, times]) => times !== 1)).toEqual([]);
    expect([...admittedAtMs.keys()].filter((id) => !settled.has(id))).toEqual([]);
    const wholeIds = new Set(whole);
    expect([...swept].filter((id) => wholeIds.has(id))).toEqual([]);
    expect(swept.size).toBeGreaterThan(0);
    expect(usage).toEqual(sumsOf(settled.size, swept.size));
  });
});

/** Reads the ids of settled and running requests from the file of the stopped service. */
function readFile(): { readonly settled: ReadonlySet<string>; readonly live: readonly string[] } {
  const db = openSqlite(databaseFile(join(root, "one", "data")));
  const idsIn = (table: string) =>
    db
      .prepare(`SELECT request_id FROM ${table}`)
      .all()
      .map((row) => String(row["request_id"]));
  const kept = { settled: new Set(idsIn("settled")), live: idsIn("live_requests") };
  db.close();
  return kept;
}

const lookEveryMs = 200;

/** A shard without running requests has no set of leases. */
async function hasNoLeases(server: RedisServer): Promise<boolean> {
  await delay(lookEveryMs);
  return (await server.cli("--scan", "--pattern", "uis:*:leases")) === "";
}
