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
/** Ids of ended requests: a repeat that comes after half as many others may be counted again. */
const endedMax = 100_000;
/** Beyond it, accounts that were used longest ago start from zero. */
const accountsMax = 100_000;

const noUsage: UsageTotals = { requests: 0, refused: 0, promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
const admitted: Admission = { admitted: true, degraded: false };

/** A ledger in memory, without limits: everybody is admitted, usage is counted once per request id. */
export function createVolatileLedger({ clock }: { readonly clock: Clock }): VolatileLedger {
  const live = new Map<string, Lease>();
  const ended = new BoundedMap<string, true>(endedMax);
  const totals = new BoundedMap<string, UsageTotals>(accountsMax);

  const add = (account: string, usage: Partial<UsageTotals>): void => {
    const sum = { ...(totals.get(account) ?? noUsage) };
    for (const name of Object.keys(noUsage) as (keyof UsageTotals)[]) {
      const delta = usage[name] ?? 0;
      invariant(Number.isSafeInteger(delta) && delta >= 0, `${name} is a count`);
      sum[name] += delta;
    }
    totals.set(account, sum);
  };
  /** False when the request had ended before. */
  const endOnce = (requestId: string, account: string, usage: Partial<UsageTotals>): boolean => {
    live.delete(requestId);
    if (ended.has(requestId)) return false;
    add(account, usage);
    ended.set(requestId, true);
    return true;
  };

  return {
    async admit({ requestId, account, leaseMs }) {
      if (live.has(requestId) || ended.has(requestId)) return admitted;
      if (live.size >= leasesMax) {
        throw new ServiceError("server_is_overloaded", `${leasesMax} requests are running.`, { retryAfterMs: 1000 });
      }
      live.set(requestId, { account, leaseMs, endsAtMs: clock.monotonic() + leaseMs });
      return admitted;
    },
    async chargeRefused({ requestId, account }) {
      endOnce(requestId, account, { refused: 1 });
    },
    async renew(requestIds) {
      for (const id of requestIds) {
        const lease = live.get(id);
        if (lease !== undefined) live.set(id, { ...lease, endsAtMs: clock.monotonic() + lease.leaseMs });
      }
    },
    async settle(settlement) {
      return { duplicate: !endOnce(settlement.requestId, settlement.account, usageOf(settlement)), crossed: [] };
    },
    async sweepLost(max) {
      const nowMs = clock.monotonic();
      const lost: LostRequest[] = [];
      for (const [requestId, { account, endsAtMs }] of live) {
        if (lost.length >= max) break;
        if (endsAtMs > nowMs) continue;
        endOnce(requestId, account, { requests: 1 });
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

function usageOf({ promptTokens, completionTokens, cachedTokens }: Settlement): Partial<UsageTotals> {
  return { requests: 1, promptTokens, completionTokens, cachedTokens };
}
