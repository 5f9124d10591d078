import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { byTier } from "../../../support/tier.js";
import { type LedgerReplica, openReplica } from "./redis-ledger-harness.js";

const program = fileURLToPath(new URL("burst-process.ts", import.meta.url));
const windowMs = 60_000;
const stepMs = 100;
const lostMax = 100_000;
const limit = 120;
const tokensEach = 7;

interface BurstProcess {
  /** Advances the process's time and sends `count` concurrent admissions; resolves with the number admitted. */
  burst(advanceMs: number, count: number): Promise<number>;
  end(): Promise<unknown>;
}

async function startBurstProcess(...args: readonly string[]): Promise<BurstProcess> {
  const child = spawn(process.execPath, ["--import", "tsx", program, ...args], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  return {
    async burst(advanceMs, count) {
      child.stdin.write(`${advanceMs} ${count}\n`);
      return Number((await lines.next()).value);
    },
    end() {
      child.stdin.end();
      return ended;
    },
  };
}

describe("bursts of two processes on one Redis", () => {
  let redis: RedisServer;
  let replica: LedgerReplica;
  beforeEach(async () => {
    redis = await startRedis({ aof: "no" });
    replica = await openReplica(redis.url);
  });
  afterEach(async () => {
    replica?.close();
    await redis?.remove();
  });

  it.each([
    { what: "requests", requestsPerMinute: limit, tokensPerMinute: 1e9, cost: 1 },
    { what: "tokens", requestsPerMinute: 1e9, tokensPerMinute: limit * tokensEach, cost: tokensEach },
  ])(
    "never admit more $what in any 60 s than the limit, and the full limit 65 s after a pause (state RL-3, state RL-4)",
    async ({ requestsPerMinute, tokensPerMinute, cost }) => {
      const limits = [requestsPerMinute, tokensPerMinute, tokensEach].map(String);
      const processes = await Promise.all(["x", "y"].map((name) => startBurstProcess(redis.url, name, ...limits)));
      const bursts = async (advanceMs: number, count: number) => {
        const admitted = await Promise.all(processes.map((each) => each.burst(advanceMs, count)));
        return admitted.reduce((sum, each) => sum + each, 0);
      };
      let admitted = await bursts(0, 100);
      expect(admitted).toBe(limit);
      let movedMs = 0;
      // Bursts at uneven times, some just before a bucket of the window expires and some just after.
      for (const [i, advanceMs] of pauses(byTier({ ci: 24, long: 240 })).entries()) {
        movedMs += advanceMs;
        admitted += await bursts(advanceMs, 5 + (i % 7) * 10);
      }
      movedMs += 65_000;
      const afterPause = await bursts(65_000, 100);
      expect(afterPause).toBe(limit);
      await Promise.all(processes.map((each) => each.end()));

      replica.advance(movedMs + 120_000);
      const requests = await replica.ledger.sweepLost(lostMax, windowMs);
      expect(requests).toHaveLength(admitted + afterPause);
      expect(mostInAnyWindow(requests.map(({ admittedAtMs }) => admittedAtMs)) * cost).toBeLessThanOrEqual(
        limit * cost,
      );
    },
  );
});

/** Uneven pauses from 0.3 to 17 s. */
function pauses(count: number): number[] {
  return Array.from({ length: count }, (_, i) => 300 + ((i * 7_919) % 16_700));
}

function mostInAnyWindow(instants: readonly number[]): number {
  const sorted = instants.toSorted((a, b) => a - b);
  const [first = 0] = sorted;
  const last = sorted.at(-1) ?? 0;
  let most = 0;
  for (let from = first - stepMs; from <= last; from += stepMs) {
    most = Math.max(most, sorted.filter((at) => at >= from && at < from + windowMs).length);
  }
  return most;
}
