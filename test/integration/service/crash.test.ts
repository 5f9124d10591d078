import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { leaseMs } from "../../../src/domain/lease-keeper.js";
import { databaseFile } from "../../../src/state/embedded/data-files.js";
import { openSqlite } from "../../../src/state/embedded/sqlite-binding.js";
import { type BuiltService, startBuiltService } from "../../support/built-service.js";
import { type Answer, type ChatClients, type Question, startChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import { seededPick } from "../../support/random-numbers.js";
import { fastClock } from "../../support/redis/fast-clock.js";
import { keepHistory, readLedgerHistory } from "../../support/redis/ledger-history.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { byTier, rounds } from "../../support/tier.js";
import { needsProgram } from "../embedded/programs.js";
import { totalOf, type UsageSum, usageOverRest } from "./usage-sums.js";

const roundCount = rounds(20);
/** Answers before each kill; more than 10,000 in the long form. */
const answersPerRound = byTier({ ci: 150, long: 520 });
/** The kill comes within so much more time, in the middle of whatever goes on. */
const killWithinMs = 200;
const clientCount = 16;
/** A lease of a minute is over in fifteen seconds by the store's clock; the long form waits for it. */
const clockSpeed = byTier({ ci: 4, long: 1 });
const sweptWithinMs = (leaseMs + 60_000) / clockSpeed + 30_000;
const testMs = 600_000;
/** What every whole answer counts. */
const tokens = { prompt: 2, completion: 8 } as const;
const models = [
  { id: "quick", engine: "scripted", slots: 64, scripted: { text: "tick", tokens: tokens.completion } },
  /** Is nearly always running when the process dies. */
  {
    id: "slow",
    engine: "scripted",
    slots: 64,
    scripted: { text: "tick", tokens: tokens.completion, token_delay_ms: 6 },
  },
];

let root: string;
let redis: RedisServer | null = null;
const started: BuiltService[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "uis-kill-"));
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((service) => service.kill()));
  await redis?.remove();
  redis = null;
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string, state: object, env: Readonly<Record<string, string>> = {}): Promise<BuiltService> {
  const service = await startBuiltService({ folder: join(root, name), config: { state, models }, env });
  started.push(service);
  return service;
}

/** Under load from `clients`, kills what `start` has started and starts it again, round after round. */
class Victim {
  service: BuiltService | null = null;
  readonly #start: () => Promise<BuiltService>;
  readonly #pick: (count: number) => number;

  constructor(startIt: () => Promise<BuiltService>, pick: (count: number) => number) {
    this.#start = startIt;
    this.#pick = pick;
  }

  async start(): Promise<BuiltService> {
    this.service = await this.#start();
    return this.service;
  }

  async dieOften({ answers }: ChatClients): Promise<void> {
    for (let round = 0; round < roundCount; round += 1) {
      await answered(answers, answersPerRound);
      await delay(this.#pick(killWithinMs));
      await this.service?.kill();
      this.service = null;
      await this.start();
    }
    // All that the last process had left is settled before these.
    await answered(answers, answersPerRound);
  }
}

async function answered(answers: readonly Answer[], count: number): Promise<void> {
  const before = answers.length;
  await eventually(() => answers.length >= before + count, `${count} more answers`, testMs);
}

function questions(pick: (count: number) => number): () => Question {
  return () => {
    const model = pick(2) === 0 ? "quick" : "slow";
    return { model, isStream: pick(2) === 0, leaves: false, maxTokens: tokens.completion };
  };
}

/** Ids of requests whose clients saw the end of the answer; the others that got an id. */
function seen(answers: readonly Answer[]): { readonly whole: string[]; readonly broken: string[] } {
  const idsOf = (outcome: Answer["outcome"]) =>
    answers.flatMap(({ requestId, outcome: how }) => (how === outcome && requestId !== null ? requestId : []));
  return { whole: idsOf("completed"), broken: idsOf("broken") };
}

/** Requests that a sweep has settled, as the services tell. */
function lostInLogs(): string[] {
  const lines = started.flatMap((service) => service.logs());
  return lines
    .filter(({ msg }) => msg === "a request of a lost process was settled")
    .map((line) => String(line["request_id"]));
}

/** The sums of an account in which `settled` requests ended, so many of them lost with nothing known of them. */
function sumsOf(settled: number, lost: number): UsageSum {
  const whole = settled - lost;
  return {
    requests: settled,
    promptTokens: whole * tokens.prompt,
    completionTokens: whole * tokens.completion,
  };
}

describe("a service that is killed under load", () => {
  it("USE-1, USE-13: embedded: what clients saw the end of is counted, nothing twice, and what was cut is settled by the next start", {
    timeout: testMs,
  }, async (context) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    const victim = new Victim(() => start("one", {}), pick);
    const { key } = await victim.start();
    const service = () => victim.service;
    const clients = startChatClients({ count: clientCount, service, key, question: questions(pick), pauseMs: 20 });
    await victim.dieOften(clients);
    await clients.end();
    const usage = totalOf(await usageOverRest(victim.service as BuiltService, key));
    expect(await victim.service?.stop()).toBe(0);

    const { settled, live } = readFile();
    const { whole, broken } = seen(clients.answers);
    const lost = lostInLogs();
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

  it("USE-1, USE-13, state RL-18: Redis: the same, and what was cut is settled once by any process when its lease is over", {
    timeout: testMs + sweptWithinMs,
  }, async (context) => {
    if (clockSpeed > 1) needsProgram(context, "gcc", "gcc");
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pick = seededPick(seed);
    redis = await startRedis({ args: keepHistory, env: fastClock(root, clockSpeed) });
    const state = { redis_url: redis.url };
    const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };
    const survivor = await start("survivor", state, env);
    const victim = new Victim(() => start("victim", state, env), pick);
    await victim.start();
    const { key } = survivor;
    const service = (number: number) => (number % 2 === 0 ? survivor : victim.service);
    const clients = startChatClients({ count: clientCount, service, key, question: questions(pick), pauseMs: 20 });
    await victim.dieOften(clients);
    await clients.end();
    await eventually(() => hasNoLeases(redis as RedisServer), "nothing is live", sweptWithinMs);
    const usage = totalOf(await usageOverRest(survivor, key));
    expect([await survivor.stop(), await victim.service?.stop()]).toEqual([0, 0]);

    const { admittedAtMs, settled, swept } = await readLedgerHistory(redis, leaseMs);
    const { whole, broken } = seen(clients.answers);
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

/** What the stopped service has kept of requests. */
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
