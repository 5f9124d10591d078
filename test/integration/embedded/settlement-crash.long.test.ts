import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LostRequest } from "../../../src/domain/metering/ledger.js";
import type { State } from "../../../src/domain/service/state.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { needsInstalled } from "../../support/missing-program.js";
import { PowerCut } from "../../support/power-cut.js";
import { silentLog } from "../../support/silent-log.js";
import { type ChildOptions, StateChild } from "./child-process.js";
import {
  numberedAdmission,
  numberedSettlement,
  promptTokensOf,
  requestIdOf,
  usedThisMonth,
} from "./ledger-requests.js";

const roundStep = 1_000_000;
/** Number of requests in each round that the process that admitted them never settles. */
const leftRunning = 5;

let root: string;
let dataDir: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-settle-"));
  dataDir = join(root, "data");
});
afterEach(() => rm(root, { recursive: true }));

/**
 * Starts a process that leaves some requests running and settles others without end, and kills it after `answers`
 * answers. Returns the numbers of the acknowledged settlements.
 */
async function serveAndKill(from: number, answers: number, options?: ChildOptions): Promise<number[]> {
  const child = new StateChild(dataDir, options);
  try {
    expect(await child.hear(() => true)).toEqual({ kind: "opened" });
    for (let number = from; number < from + leftRunning; number++) child.tell({ kind: "admit", number });
    await child.hear(() => child.acknowledged.length === leftRunning);
    child.tell({ kind: "serve", from: from + leftRunning });
    await child.hear(() => child.said.length > answers + leftRunning);
  } finally {
    await child.kill();
  }
  return child.acknowledged.filter((number) => number >= from + leftRunning);
}

async function sweepAll(state: State): Promise<LostRequest[]> {
  const all: LostRequest[] = [];
  for (;;) {
    const lost = await state.ledger.sweepLost(7, 60_000);
    if (lost.length === 0) return all;
    all.push(...lost);
  }
}

/** Settles each number again; returns those that were counted only now, because their first settlement was lost. */
async function settleAgain(state: State, numbers: readonly number[]): Promise<number[]> {
  const outcomes = await Promise.all(numbers.map((number) => state.ledger.settle(numberedSettlement(number))));
  return numbers.filter((_, position) => outcomes[position]?.duplicate === false);
}

describe("settlements of the embedded state under kill -9", () => {
  it("are kept if acknowledged and never counted twice, and the next sweep finds running requests (USE-1, state RL-18)", {
    timeout: 300_000,
  }, async () => {
    const seen = new Set<number>();
    for (let round = 1; round <= 50; round++) {
      const from = round * roundStep;
      const acknowledged = await serveAndKill(from, 1 + Math.floor(Math.random() * 1_000));
      const state = await openEmbeddedState({ dataDir, log: silentLog });
      const lost = (await sweepAll(state)).map(({ requestId }) => Number.parseInt(requestId.slice("req_".length), 16));
      const leftBehind = Array.from({ length: leftRunning }, (_, position) => from + position);
      expect(leftBehind.filter((number) => !lost.includes(number))).toEqual([]);
      expect(acknowledged.filter((number) => lost.includes(number))).toEqual([]);

      expect(await settleAgain(state, acknowledged)).toEqual([]);
      expect(await settleAgain(state, lost)).toEqual(lost);
      expect(await settleAgain(state, lost)).toEqual([]);
      expect(await state.ledger.sweepLost(10, 60_000)).toEqual([]);
      for (const number of [...acknowledged, ...lost]) seen.add(number);
      // Requests that may have been settled before the kill without an acknowledgement: they are counted once.
      const unsaid = Array.from({ length: 40 }, (_, lane) => Math.max(from, ...acknowledged) + 1 + lane);
      const counted = await settleAgain(state, unsaid);
      for (const number of unsaid) seen.add(number);
      expect(counted.length).toBeLessThanOrEqual(unsaid.length);

      const used = await usedThisMonth(state);
      const expected = [...seen].reduce((sum, number) => sum + promptTokensOf(number), 0);
      expect(used).toMatchObject({ requests: BigInt(seen.size), promptTokens: BigInt(expected) });
      await state.close();
    }
  });

  it("the rate limit windows are empty after a restart (state RL-20)", async () => {
    const owner = { kind: "account", id: "acme" } as const;
    const limits = { requestsPerMinute: 1, tokensPerMinute: null, concurrency: null };
    const limited = { scopes: [{ owner, limits }] };
    const first = await openEmbeddedState({ dataDir, log: silentLog });
    expect(await first.ledger.admit(numberedAdmission(1, limited))).toMatchObject({ admitted: true });
    expect(await first.ledger.admit(numberedAdmission(2, limited))).toMatchObject({ admitted: false });
    await first.close();
    const second = await openEmbeddedState({ dataDir, log: silentLog });
    expect(await second.ledger.admit(numberedAdmission(2, limited))).toMatchObject({ admitted: true });
    await second.close();
  });

  it("a lost request has the progress that was recorded last", async () => {
    const first = await openEmbeddedState({ dataDir, log: silentLog });
    await first.ledger.admit(numberedAdmission(1));
    await first.ledger.renew([{ requestId: requestIdOf(1), account: "acme", promptTokens: 9, completionTokens: 4 }], 1);
    await first.close();
    const second = await openEmbeddedState({ dataDir, log: silentLog });
    const lost = await second.ledger.sweepLost(10, 60_000);
    expect(lost).toMatchObject([
      { requestId: requestIdOf(1), account: "acme", model: "org/model", promptTokens: 9, completionTokens: 4 },
    ]);
    expect(await second.ledger.sweepLost(10, 60_000)).toEqual([]);
    await second.close();
  });
});

describe("settlements of the embedded state under a power cut", () => {
  it("are not lost if they were acknowledged (USE-1)", { timeout: 300_000 }, async (context) => {
    if (process.platform !== "linux") context.skip("the preloaded library is made for Linux");
    needsInstalled("gcc");
    const power = new PowerCut(root);
    const seen = new Set<number>();
    for (let round = 1; round <= 30; round++) {
      const answers = 1 + Math.floor(Math.random() * 1_000);
      const acknowledged = await serveAndKill(round * roundStep, answers, { env: await power.environment(dataDir) });
      await power.cut(dataDir);
      const state = await openEmbeddedState({ dataDir, log: silentLog });
      expect(await settleAgain(state, acknowledged)).toEqual([]);
      for (const number of acknowledged) seen.add(number);
      const used = await usedThisMonth(state);
      expect(used.requests).toBeGreaterThanOrEqual(BigInt(seen.size));
      await state.close();
    }
  });
});
