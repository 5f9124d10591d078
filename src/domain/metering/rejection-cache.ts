import { inferenceOperations, type Operation } from "../../contract/operations.js";
import { BoundedMap } from "../../lib/bounded-collections.js";
import type { Clock } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import type { LimitSnapshot, LimitState } from "../call/rate-limits.js";
import type { LimitRefusal, Refused } from "./ledger.js";
import { errorOfRefusal } from "./limit-response.js";

/** Time for which a rejection is cached: a raised limit or a reset window is noticed after it (state RL-15). */
const holdMsMax = 1_000;
/** Cached rejections; other callers go to the ledger. */
const heldMax = 20_000;

interface Held {
  readonly refusal: LimitRefusal;
  readonly snapshot: LimitSnapshot | undefined;
  readonly waitMs: number;
  /** Time of the rejection on the monotonic clock. */
  readonly atMs: number;
}

/**
 * Rejects callers known to be over a limit, in memory and before the body is read. Only request limits of keys and
 * accounts are cached: charged requests never come back early, whereas tokens are released when any request ends, and
 * the model is named in the body.
 */
export class RejectionCache {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Cached rejections by kind and id of the owner. */
  #held = new BoundedMap<string, Held>(heldMax);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Caches a rejection by the ledger. */
  note({ refusal, snapshot, degraded }: Refused): void {
    if (refusal.which !== "requests" || refusal.retryAfterMs === null || refusal.owner.kind === "model") return;
    // A local share of a limit rejected it; the shared store may admit it once it has recovered.
    if (degraded) return;
    const { owner, retryAfterMs: waitMs } = refusal;
    this.#held.set(`${owner.kind} ${owner.id}`, { refusal, snapshot, waitMs, atMs: this.#clock.monotonic() });
  }

  /** Throws the 429 of the ledger with the remaining wait. */
  check(operation: Operation, { keyId, account }: Pick<Principal, "keyId" | "account">): void {
    if (this.#held.size === 0 || !inferenceOperations.has(operation)) return;
    if (keyId !== null) this.#checkOwner(`key ${keyId}`);
    this.#checkOwner(`account ${account}`);
  }

  /** Clears the cache after limits changed or a window was reset. */
  clear(): void {
    this.#held = new BoundedMap(heldMax);
  }

  #checkOwner(name: string): void {
    const held = this.#held.get(name);
    if (held === undefined) return;
    const sinceMs = this.#clock.monotonic() - held.atMs;
    if (sinceMs >= Math.min(held.waitMs, holdMsMax)) {
      this.#held.delete(name);
      return;
    }
    const refusal = { ...held.refusal, retryAfterMs: held.waitMs - sinceMs };
    throw errorOfRefusal({ refusal, snapshot: held.snapshot && aged(held.snapshot, sinceMs), degraded: false });
  }
}

/** The snapshot as it is `sinceMs` later, if nothing was charged. */
function aged({ requests, tokens }: LimitSnapshot, sinceMs: number): LimitSnapshot {
  const later = (state: LimitState) => ({ ...state, resetMs: Math.max(0, state.resetMs - sinceMs) });
  return { ...(requests && { requests: later(requests) }), ...(tokens && { tokens: later(tokens) }) };
}
