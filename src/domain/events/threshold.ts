/** What is added up. */
export type Metric = "tokens" | "requests" | "cost";

/** Over what; both begin at 00:00 UTC by the store's time (USE-6). */
export type PeriodKind = "day" | "month";

/** Whose usage: all of an account, or one of its keys. */
export interface UsageScope {
  readonly kind: "account" | "key";
  readonly id: string;
}

/** Tells when usage of a period reaches a share of a limit; with `refuse` it is a budget (USE-4, USE-7). */
export interface Threshold {
  /** `thr_` and 24 characters. */
  readonly id: string;
  readonly account: string;
  /** Null: the whole account. */
  readonly apiKeyId: string | null;
  readonly metric: Metric;
  readonly period: PeriodKind;
  /** Tokens, requests or nano-dollars; 1 or more. */
  readonly limit: bigint;
  /** Shares of the limit that are told, in percent: 1 to 10 whole numbers from 1 to 100, rising. */
  readonly percents: readonly number[];
  readonly action: "notify" | "refuse";
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/**
 * Where thresholds are kept. Every change is told through the state's change feed. Rejects with `storage_unavailable`.
 */
export interface ThresholdStore {
  /** All, at most 10,000, the oldest first. */
  list(): Promise<readonly Threshold[]>;
  /** Rejects with ServiceError `conflict` when the id is taken. */
  insert(threshold: Threshold): Promise<void>;
  /** Replaces the one with the same id; false: there is none. */
  replace(threshold: Threshold): Promise<boolean>;
  remove(id: string): Promise<boolean>;
}

export function usageScopeOf({ account, apiKeyId }: Pick<Threshold, "account" | "apiKeyId">): UsageScope {
  return apiKeyId === null ? { kind: "account", id: account } : { kind: "key", id: apiKeyId };
}

/** Sums of settled requests. int64 in every driver; never a float (USE-9). */
export interface UsageSums {
  readonly requests: bigint;
  readonly promptTokens: bigint;
  readonly completionTokens: bigint;
  readonly cachedTokens: bigint;
  readonly costNano: bigint;
}
