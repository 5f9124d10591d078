import type { Admission, Ledger, LostRequest, Settlement } from "../../domain/ledger.js";
import type { Clock } from "../../domain/ports.js";
import { invariant, ServiceError } from "../../domain/service-error.js";
import { BoundedMap } from "../../lib/bounded-map.js";

/** What an account has used since the start. Integers only. */
export interface UsageTotals {
  /** Settled requests, lost ones included. */
  readonly requests: number;
  /** Requests that validation refused: they cost one request of a limit and are no usage. */
  readonly refused: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
}

export interface VolatileLedger extends Ledger {
  /** All zero for an account that was never seen. */
  usageTotals(account: string): UsageTotals;
}

interface Lease {
  readonly account: string;
  readonly leaseMs: number;
  /** On the monotonic clock: a step of the wall clock ends no lease. */
  readonly endsAtMs: number;
}

const leasesMax = 100_000;
/**
 * Ids of ended requests: a repeat that comes after half as many others may be counted again. Repeats come at once if at
 * all, and a table that the processor's cache cannot hold would cost each request a microsecond.
 */
const endedMax = 1_000;
/** Beyond it, accounts that were used longest ago start from zero. */
const accountsMax = 100_000;

const noUsage: UsageTotals = { requests: 0, refused: 0, promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
const oneRefused: UsageTotals = { ...noUsage, refused: 1 };
const oneLost: UsageTotals = { ...noUsage, requests: 1 };
const admitted: Admission = { admitted: true, degraded: false };

/** A ledger in memory, without limits: everybody is admitted, usage is counted once per request id. Answers at once. */
export function createVolatileLedger({ clock }: { readonly clock: Clock }): VolatileLedger {
  const live = new Map<string, Lease>();
  const ended = new BoundedMap<string, true>(endedMax);
  const totals = new BoundedMap<string, UsageTotals>(accountsMax);

  const add = (account: string, usage: UsageTotals): void => {
    const before = totals.get(account) ?? noUsage;
    totals.set(account, {
      requests: before.requests + counted("requests", usage.requests),
      refused: before.refused + counted("refused", usage.refused),
      promptTokens: before.promptTokens + counted("promptTokens", usage.promptTokens),
      completionTokens: before.completionTokens + counted("completionTokens", usage.completionTokens),
      cachedTokens: before.cachedTokens + counted("cachedTokens", usage.cachedTokens),
    });
  };
  /** False when the request had ended before. */
  const endOnce = (requestId: string, account: string, usage: UsageTotals): boolean => {
    // One that is live has not ended: only the others need to be looked up.
    if (!live.delete(requestId) && ended.has(requestId)) return false;
    add(account, usage);
    ended.set(requestId, true);
    return true;
  };

  return {
    admit({ requestId, account, leaseMs }) {
      if (live.has(requestId) || ended.has(requestId)) return admitted;
      if (live.size >= leasesMax) {
        throw new ServiceError("server_is_overloaded", `${leasesMax} requests are running.`, { retryAfterMs: 1000 });
      }
      live.set(requestId, { account, leaseMs, endsAtMs: clock.monotonic() + leaseMs });
      return admitted;
    },
    async chargeRefused({ requestId, account }) {
      endOnce(requestId, account, oneRefused);
    },
    async renew(requestIds) {
      for (const id of requestIds) {
        const lease = live.get(id);
        if (lease !== undefined) live.set(id, { ...lease, endsAtMs: clock.monotonic() + lease.leaseMs });
      }
    },
    settle(settlement) {
      return { duplicate: !endOnce(settlement.requestId, settlement.account, usageOf(settlement)), crossed: [] };
    },
    async sweepLost(max) {
      const nowMs = clock.monotonic();
      const lost: LostRequest[] = [];
      for (const [requestId, { account, endsAtMs }] of live) {
        if (lost.length >= max) break;
        if (endsAtMs > nowMs) continue;
        endOnce(requestId, account, oneLost);
        lost.push({ requestId, account });
      }
      return lost;
    },
    async liveLeases() {
      return live.size;
    },
    usageTotals: (account) => totals.get(account) ?? noUsage,
  };
}

function counted(name: keyof UsageTotals, delta: number): number {
  invariant(Number.isSafeInteger(delta) && delta >= 0, `${name} is a count`);
  return delta;
}

function usageOf({ promptTokens, completionTokens, cachedTokens }: Settlement): UsageTotals {
  return { requests: 1, refused: 0, promptTokens, completionTokens, cachedTokens };
}
