import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { leaseMs } from "../../../src/domain/metering/lease-keeper.js";
import { type Answer, type ChatClients, type Question, startChatClients } from "../../support/chat-clients.js";
import { eventually } from "../../support/eventually.js";
import { seededPick } from "../../support/random-numbers.js";
import { keepHistory, readLedgerHistory } from "../../support/redis/ledger-history.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import {
  addUp,
  byModel,
  type UsageByModel,
  type UsageSum,
  usageInLogs,
  usageOverRest,
  usageOverRpc,
} from "./usage-sums.js";

const size = { processes: 4, clients: 64, limit: 3_000 };
const runMs = 180_000;
const startUpMs = 60_000;
const windowMs = 60_000;
const stepMs = 100;
/** Twelve thirteenths (state RL-4), as a whole percentage. */
const sustainedShare = 0.92;
const refusedPauseMs = 500;
const settledWithinMs = 20_000;

/** Every prompt has two tokens. */
const promptTokens = 2;
const models = {
  whole: { text: "tick", tokens: 6 },
  /** A model so slow that no client receives the end of its answer. */
  left: { text: "tick", tokens: 40, token_delay_ms: 25 },
  failing: { text: "tick", tokens: 6, fail: { after_tokens: 3, code: "internal_error" } },
} as const;
const wholeTokens = promptTokens + models.whole.tokens;

/**
 * Requests with 94 % complete answers, 5 % clients that disconnect and 1 % failures of the engine. Half of the requests
 * that can be either are streams.
 */
function questions(pick: (count: number) => number): () => Question {
  return () => {
    const percent = pick(100);
    const isStream = pick(2) === 0;
    if (percent === 0) return { model: "failing", isStream, leaves: false, maxTokens: models.failing.tokens };
    if (percent <= 5) return { model: "left", isStream: true, leaves: true, maxTokens: models.left.tokens };
    return { model: "whole", isStream, leaves: false, maxTokens: models.whole.tokens };
  };
}

let root: string;
let redis: RedisServer;
const services: ServiceProcess[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "uis-exact-"));
});
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.kill()));
  await redis?.remove();
  rmSync(root, { recursive: true, force: true });
});

async function startServices(limits: object): Promise<string> {
  redis = await startRedis({ args: keepHistory });
  const config = {
    state: { redis_url: redis.url },
    models: Object.entries(models).map(([id, scripted]) => ({ id, engine: "scripted", slots: 256, scripted })),
    rate_limits: { default_account: limits },
  };
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };
  for (let n = 0; n < size.processes; n += 1) {
    services.push(await startServiceProcess({ folder: join(root, String(n)), config, env }));
  }
  return services[0]?.key ?? "";
}

/**
 * Runs three minutes of the store's time under clients that are almost always rejected, and waits until all requests are
 * settled.
 */
async function load(key: string, pick: (count: number) => number): Promise<ChatClients> {
  const service = (number: number) => services[number % services.length] ?? null;
  const clients = startChatClients({
    count: size.clients,
    service,
    key,
    question: questions(pick),
    pauseMs: refusedPauseMs,
  });
  await eventually(() => clients.answers.length > 0, "the first answer");
  await delay(runMs);
  await clients.end();
  const isAtRest = async (each: ServiceProcess) => (await each.debugState()).requests.running === 0;
  for (const each of services) await eventually(() => isAtRest(each), "all requests have ended");
  return clients;
}

/** Number of output tokens as the engines count them, because clients that disconnected received no usage. */
async function producedByEngines(model: string): Promise<number> {
  const states = await Promise.all(services.map((service) => service.debugState()));
  return states.reduce((sum, state) => sum + (state.models.find(({ id }) => id === model)?.produced_tokens ?? 0), 0);
}

/** Expected usage, according to the answers of clients and the counts of engines. */
async function expectedUsage(answers: readonly Answer[]): Promise<UsageByModel> {
  const of = (model: string) => answers.filter(({ question }) => question.model === model);
  const whole = of("whole");
  const cut = async (model: string) => ({
    requests: of(model).length,
    promptTokens: of(model).length * promptTokens,
    completionTokens: await producedByEngines(model),
  });
  return {
    failing: await cut("failing"),
    left: await cut("left"),
    whole: {
      requests: whole.length,
      promptTokens: addUp(whole.map((answer) => answer.promptTokens)),
      completionTokens: addUp(whole.map((answer) => answer.completionTokens)),
    },
  };
}

/**
 * Final charge of a request: complete answers use all reserved tokens, and tokens that other requests did not use were
 * refunded. The time is the time of the store's decision, read from the store's record. Requests that were admitted without
 * the store, because it was too slow, have no charge.
 */
interface Charge {
  readonly atMs: number;
  readonly amount: number;
}

/** Maximum sum of charges in any window of 60 s; windows start every 100 ms. */
function mostInAnyWindow(charges: readonly Charge[], firstMs: number, lastMs: number): number {
  let most = 0;
  for (let fromMs = firstMs - windowMs; fromMs <= lastMs; fromMs += stepMs) {
    most = Math.max(most, chargedBetween(charges, fromMs, fromMs + windowMs));
  }
  return most;
}

function chargedBetween(charges: readonly Charge[], fromMs: number, toMs: number): number {
  let sum = 0;
  for (const { atMs, amount } of charges) if (atMs >= fromMs && atMs < toMs) sum += amount;
  return sum;
}

describe("limits and usage of several processes on one Redis", () => {
  it.for([
    { what: "requests", limits: { requests_per_minute: size.limit }, limit: size.limit },
    { what: "tokens", limits: { tokens_per_minute: size.limit * wholeTokens }, limit: size.limit * wholeTokens },
  ])(
    "$what never exceed the limit in 60 s, reach 92 % of it, and all usage is counted once (state RL-3, state RL-4, state RL-6, state RL-7, USE-1, USE-10, REL-16)",
    { timeout: runMs + 3 * startUpMs },
    async ({ what, limits, limit }, context) => {
      const key = await startServices(limits);
      const seed = Math.floor(Math.random() * 2 ** 31);
      const { answers, refused } = await load(key, seededPick(seed));
      const outcomes = new Set(answers.map(({ question, outcome }) => `${question.model} ${outcome}`));
      expect([...outcomes].toSorted()).toEqual(["failing failed", "left left", "whole completed"]);

      const expected = await expectedUsage(answers);
      const [service] = services as [ServiceProcess];
      // Settlements that waited in a spool are stored later.
      await expect.poll(() => usageOverRest(service, key), { timeout: settledWithinMs }).toEqual(expected);
      expect(await usageOverRpc(service, key)).toEqual(expected);
      await Promise.all(services.map((each) => each.stop()));
      const logged = usageInLogs(services);
      expect(byModel(logged)).toEqual(expected);

      const { admittedAtMs, settled } = await readLedgerHistory(redis, leaseMs);
      expect([...settled].filter(([, times]) => times !== 1)).toEqual([]);
      expect([...settled.keys()].toSorted()).toEqual(logged.map(({ requestId }) => requestId).toSorted());
      const amountOf = ({ promptTokens, completionTokens }: UsageSum) =>
        what === "requests" ? 1 : promptTokens + completionTokens;
      const charges = logged.flatMap((request): Charge[] => {
        const atMs = admittedAtMs.get(request.requestId);
        return atMs === undefined ? [] : [{ atMs, amount: amountOf(request) }];
      });
      const degraded = new Set(answers.flatMap((answer) => (answer.isDegraded ? [answer.requestId] : [])));
      const instants = [...admittedAtMs.values()].toSorted((a, b) => a - b);
      const [firstMs = 0] = instants;
      const most = mostInAnyWindow(charges, firstMs, instants.at(-1) ?? 0);
      const sustained = chargedBetween(charges, firstMs + windowMs, firstMs + runMs) / 2;
      await context.annotate(
        `${what}: limit ${limit}, most in 60 s ${most}, per minute at last ${sustained}; ${answers.length} answered, ` +
          `${refused} refused, ${degraded.size} decided without the store; seed ${seed}`,
      );
      expect(most).toBeLessThanOrEqual(limit);
      expect(sustained).toBeGreaterThanOrEqual(sustainedShare * limit);
    },
  );
});
