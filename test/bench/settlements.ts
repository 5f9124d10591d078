import { join } from "node:path";
import type { Ledger } from "../../src/domain/metering/ledger.js";
import { createSystemClock } from "../../src/lib/clock.js";
import { openEmbeddedState } from "../../src/state/embedded/state.js";
import { silentLog } from "../support/silent-log.js";

export interface SettlementRate {
  readonly settlementsPerSecond: number;
  /** Processor time of the whole process, store thread included. */
  readonly cpuUsPerSettlement: number;
}

/** Requests per second that the embedded ledger admits and settles, each synced to disk, at a given concurrency. */
export async function embeddedSettlements(folder: string, inFlight: number, seconds: number): Promise<SettlementRate> {
  const state = await openEmbeddedState({
    dataDir: join(folder, "settlements"),
    log: silentLog,
    clock: createSystemClock(),
  });
  try {
    await settleFor(state.ledger, "warm", inFlight, 1);
    const before = process.cpuUsage();
    const startedMs = performance.now();
    const settled = await settleFor(state.ledger, "timed", inFlight, seconds);
    const used = process.cpuUsage(before);
    return {
      settlementsPerSecond: Math.round(settled / ((performance.now() - startedMs) / 1_000)),
      cpuUsPerSettlement: Math.round((used.user + used.system) / settled),
    };
  } finally {
    await state.close();
  }
}

async function settleFor(ledger: Ledger, name: string, inFlight: number, seconds: number): Promise<number> {
  const endAtMs = performance.now() + seconds * 1_000;
  let settled = 0;
  // The records are written out in full: merging them from a shared object costs as much as a third of a settlement.
  const oneAfterTheOther = async (): Promise<void> => {
    while (performance.now() < endAtMs) {
      const requestId = `req_${name}_${settled++}`;
      await ledger.admit({
        requestId,
        account: "default",
        keyId: "key_1",
        model: "m",
        operation: "create_chat_completion",
        reserve: { tokens: 0, costNano: 0 },
        promptTokens: 0,
        leaseMs: 60_000,
        scopes: [],
        budgets: [],
      });
      await ledger.settle({
        requestId,
        account: "default",
        keyId: "key_1",
        model: "m",
        operation: "create_chat_completion",
        why: "completed",
        error: null,
        promptTokens: 10,
        completionTokens: 5,
        cachedTokens: 0,
        costNano: 0,
        latencyMs: 1,
        degraded: false,
        event: null,
        thresholds: [],
        endedAtMs: null,
      });
    }
  };
  await Promise.all(Array.from({ length: inFlight }, oneAfterTheOther));
  return settled;
}
