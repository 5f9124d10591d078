import type { Period, UsageScope, UsageSums } from "../events/threshold.js";

/** What one key used of one model in one hour or day of UTC. */
export interface UsageRow extends UsageSums {
  readonly account: string;
  readonly startMs: number;
  /** Null: the administrator. */
  readonly keyId: string | null;
  readonly model: string;
}

export interface UsageRange {
  readonly account: string;
  readonly width: "hour" | "day";
  /** Both are whole hours or days; rows that begin in [fromMs, toMs). */
  readonly fromMs: number;
  readonly toMs: number;
}

/** Reads what settlements have added up. Hours are kept for 90 days, days for 2 years (USE-15). Rejects with `storage_unavailable`. */
export interface UsageReader {
  /** In the order of start, key and model. */
  rows(range: UsageRange): Promise<readonly UsageRow[]>;
  /** Accounts that have usage or keys, in their order; at most 10,000. */
  accounts(): Promise<readonly string[]>;
  /** Sums of a whole period so far, without reservations. */
  used(account: string, scope: UsageScope, period: Period): Promise<UsageSums>;
}
