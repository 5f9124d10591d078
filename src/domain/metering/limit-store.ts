import type { LimitOwner, RateLimits } from "../call/rate-limits.js";

/** Limits that an administrator has set for an account or a model. Those of keys are kept with the key. */
export interface StoredLimits {
  readonly owner: LimitOwner;
  readonly limits: RateLimits;
  readonly updatedAtMs: number;
}

/** Where they are kept. Every change is told through the state's change feed. Rejects with `storage_unavailable`. */
export interface LimitStore {
  /** At most 10,000; in the order of kind and id. */
  list(): Promise<readonly StoredLimits[]>;
  /** The last writer wins. `storage_unavailable` when 10,000 are kept. */
  put(limits: StoredLimits): Promise<void>;
  /** Back to the configuration's default; false when nothing was set. */
  remove(owner: LimitOwner): Promise<boolean>;
}
