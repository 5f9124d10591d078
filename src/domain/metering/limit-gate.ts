import { inferenceOperations, type Operation } from "../../contract/operations.js";
import { BoundedMap } from "../../lib/bounded-collections.js";
import type { Clock } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import type { LimitOwner, LimitSnapshot, LimitState } from "../call/rate-limits.js";
import type { LimitRefusal, Refused } from "./ledger.js";
import { errorOfRefusal } from "./limit-response.js";

/**
 * Time for which a rejection is cached. A raised limit or a reset window is noticed after that (state RL-15), and a
 * flooding caller costs the store one call per second.
 */
const holdMsMax = 1_000;
/** Cached callers; others go to the ledger. */
const heldMax = 10_000;

interface Held {
  readonly refused: Refused & { readonly refusal: LimitRefusal };
  readonly waitMs: number;
  /** On the monotonic clock. */
  readonly atMs: number;
}

/**
 * Rejects callers known to be over a limit, in memory and before the body is read. Only request limits of keys and
 * accounts are cached: charged requests never come back early, whereas tokens are released when any request ends, and
 * the model is named in the body.
 */
export class LimitGate {
  readonly #clock: Pick<Clock, "monotonic">;
  #byKey = new BoundedMap<string, Held>(heldMax);
  #byAccount = new BoundedMap<string, Held>(heldMax);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Caches a rejection by the ledger. */
  note({ refusal, snapshot, degraded }: Refused): void {
    if (refusal.which !== "requests" || refusal.retryAfterMs === null) return;
    // A local share of a limit rejected it; the shared store may admit it once it has recovered.
    if (degraded) return;
    const refused = { admitted: false, refusal, degraded, ...(snapshot === undefined ? {} : { snapshot }) } as const;
    const held = { refused, waitMs: refusal.retryAfterMs, atMs: this.#clock.monotonic() };
    this.#of(refusal.owner)?.set(refusal.owner.id, held);
  }

  /** Throws the 429 of the ledger with the remaining wait. */
  check(operation: Operation, { keyId, account }: Pick<Principal, "keyId" | "account">): void {
    if (this.#byKey.size === 0 && this.#byAccount.size === 0) return;
    if (!inferenceOperations.has(operation)) return;
    if (keyId !== null) this.#checkHeld(this.#byKey, keyId);
    this.#checkHeld(this.#byAccount, account);
  }

  /** Clears the cache after limits changed or a window was reset. */
  clear(): void {
    this.#byKey = new BoundedMap(heldMax);
    this.#byAccount = new BoundedMap(heldMax);
  }

  #of({ kind }: LimitOwner): BoundedMap<string, Held> | null {
    switch (kind) {
      case "key":
        return this.#byKey;
      case "account":
        return this.#byAccount;
      case "model":
        return null;
    }
  }

  #checkHeld(held: BoundedMap<string, Held>, id: string): void {
    const known = held.get(id);
    if (known === undefined) return;
    const { refused, waitMs, atMs } = known;
    const sinceMs = this.#clock.monotonic() - atMs;
    if (sinceMs < Math.min(waitMs, holdMsMax)) throw errorOfRefusal(later(refused, sinceMs));
    held.delete(id);
  }
}

/** A rejection, aged by `sinceMs`. */
function later(refused: Held["refused"], sinceMs: number): Refused {
  const { refusal, snapshot, degraded } = refused;
  const retryAfterMs = refusal.retryAfterMs === null ? null : refusal.retryAfterMs - sinceMs;
  return {
    admitted: false,
    refusal: { ...refusal, retryAfterMs },
    degraded,
    ...(snapshot === undefined ? {} : { snapshot: snapshotLater(snapshot, sinceMs) }),
  };
}

function snapshotLater({ requests, tokens }: LimitSnapshot, sinceMs: number): LimitSnapshot {
  const stateLater = (state: LimitState) => ({ ...state, resetMs: Math.max(0, state.resetMs - sinceMs) });
  return {
    ...(requests === undefined ? {} : { requests: stateLater(requests) }),
    ...(tokens === undefined ? {} : { tokens: stateLater(tokens) }),
  };
}
