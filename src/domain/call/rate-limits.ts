/** Limits of one key, account or model. Null means unlimited here. */
export interface RateLimits {
  /** Requests in any 60 seconds; 1 or more. */
  readonly requestsPerMinute: number | null;
  /** Tokens of prompt and answer in any 60 seconds; 1 or more. */
  readonly tokensPerMinute: number | null;
  /** Concurrent requests; 1 or more. */
  readonly concurrency: number | null;
}

export const unlimited: RateLimits = Object.freeze({
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrency: null,
});

/**
 * Maximum value of a limit; higher values are configuration errors. Up to it, sums over all sub-buckets of a window are
 * exact.
 */
export const rateLimitMax = 1_000_000_000_000;

/** Defaults for keys, accounts and models without limits of their own: `rate_limits` of the configuration. */
export interface RateLimitDefaults {
  readonly key: RateLimits;
  readonly account: RateLimits;
  /** By model id. */
  readonly models: ReadonlyMap<string, RateLimits>;
}

/**
 * The key, account or model that a limit belongs to. A model's limit is counted for each account separately, so that all
 * limits of a request are in one shard and are decided in one step, also in a cluster (state RL-2).
 */
export interface LimitOwner {
  readonly kind: "key" | "account" | "model";
  /** Id of the key, name of the account, id of the model. */
  readonly id: string;
}

/** The limits of one owner that apply to a request; at least one is not null. */
export interface LimitScope {
  readonly owner: LimitOwner;
  readonly limits: RateLimits;
}

/** Time after which any window is empty: 60 s plus the sub-bucket of 5 s (state RL-4). */
export const windowExpiryMs = 65_000;

/**
 * State of the caller's limits after this request, for `x-ratelimit-*` (wire RL-1): the tightest limit in each
 * dimension. Absent means unlimited.
 */
export interface LimitSnapshot {
  readonly requests?: LimitState;
  readonly tokens?: LimitState;
}

/**
 * The snapshot of the limits that apply. Literals, here and elsewhere on the path of a request: V8 gives every object with
 * spread optional parts a hidden class of its own, so that each later access to its fields costs a microsecond.
 */
export function limitSnapshot(requests: LimitState | undefined, tokens: LimitState | undefined): LimitSnapshot {
  if (requests === undefined) return tokens === undefined ? {} : { tokens };
  return tokens === undefined ? { requests } : { requests, tokens };
}

export interface LimitState {
  readonly owner: LimitOwner;
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** Time until the window is unused again (wire RL-3). */
  readonly resetMs: number;
}

/** Kinds of limits that can reject a request at its admission. */
export type LimitKind = "requests" | "tokens" | "concurrency" | "budget";
