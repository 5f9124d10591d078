/** Limits of one key, account or model. Null: not limited here. */
export interface RateLimits {
  /** Requests in any 60 seconds; 1 or more. */
  readonly requestsPerMinute: number | null;
  /** Tokens of prompt and answer in any 60 seconds; 1 or more. */
  readonly tokensPerMinute: number | null;
  /** Requests that run at the same time; 1 or more. */
  readonly concurrency: number | null;
}

export const unlimited: RateLimits = Object.freeze({
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrency: null,
});

/** Above it nobody means a limit, and sums over all sub-buckets stay exact. */
export const rateLimitMax = 1_000_000_000_000;

/** Limits where what is null in `own` is that of `fallback`. */
export function limitsOver(own: RateLimits, fallback: RateLimits): RateLimits {
  return {
    requestsPerMinute: own.requestsPerMinute ?? fallback.requestsPerMinute,
    tokensPerMinute: own.tokensPerMinute ?? fallback.tokensPerMinute,
    concurrency: own.concurrency ?? fallback.concurrency,
  };
}

export function isUnlimited({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): boolean {
  return requestsPerMinute === null && tokensPerMinute === null && concurrency === null;
}

/** What holds for whoever has no limits of their own: `rate_limits` of the configuration. */
export interface RateLimitDefaults {
  readonly key: RateLimits;
  readonly account: RateLimits;
  /** By model id. */
  readonly models: ReadonlyMap<string, RateLimits>;
}

/**
 * Whose limit it is. A model's limit holds for each account by itself: all limits of one request then lie together and
 * are decided in one step, also in a cluster (state RL-2).
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

/** After which a window is whole again, whatever was charged: 60 s and the sub-bucket of 5 s (state RL-4). */
export const windowHealsMs = 65_000;

/**
 * Limits of the caller after this request was charged, for `x-ratelimit-*` (wire RL-1): in each dimension the tightest
 * of all that apply. Absent dimension: unlimited.
 */
export interface LimitSnapshot {
  readonly requests?: LimitState;
  readonly tokens?: LimitState;
}

export interface LimitState {
  /** Whose limit it is. */
  readonly owner: LimitOwner;
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** Until the window is full again (wire RL-3). */
  readonly resetMs: number;
}

/** What can reject a request at its admission. */
export type LimitKind = "requests" | "tokens" | "concurrency" | "budget";
