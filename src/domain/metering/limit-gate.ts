import { inferenceOperations, type Operation } from "../../contract/operations.js";
import { BoundedMap } from "../../lib/bounded-map.js";
import type { Clock } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import type { LimitOwner, LimitSnapshot, LimitState } from "../call/rate-limits.js";
import type { LimitRefusal, Refused } from "./ledger.js";
import { errorOfRefusal } from "./limit-response.js";

/**
 * How long a refusal is believed unasked. A limit that was raised, or a window that was emptied, elsewhere is noticed
 * after that (state RL-15), and a caller who floods costs the store one question per second.
 */
const holdMsMax = 1_000;
/** Callers whose refusals are remembered; others are asked for as if there were no gate. */
const heldMax = 10_000;

interface Held {
  readonly refused: Refused & { readonly refusal: LimitRefusal };
  readonly waitMs: number;
  /** On the monotonic clock. */
  readonly atMs: number;
}

/**
 * Refuses in memory, before a body is read, who is known to be over a limit. Only limits of requests count: a request is
 * never given back, so that nobody is let in before the wait is over, whereas tokens come back whenever a request ends.
 * Only those of keys and accounts: the model is in the body.
 */
export class LimitGate {
  readonly #clock: Pick<Clock, "monotonic">;
  #byKey = new BoundedMap<string, Held>(heldMax);
  #byAccount = new BoundedMap<string, Held>(heldMax);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Remembers what the ledger refused. */
  note({ refusal, snapshot, degraded }: Refused): void {
    if (refusal.which !== "requests" || refusal.retryAfterMs === null) return;
    // What a share of a limit refused, the store may admit as soon as it is back.
    if (degraded) return;
    const refused = { admitted: false, refusal, degraded, ...(snapshot === undefined ? {} : { snapshot }) } as const;
    const held = { refused, waitMs: refusal.retryAfterMs, atMs: this.#clock.monotonic() };
    this.#of(refusal.owner)?.set(refusal.owner.id, held);
  }

  /** Throws what the ledger would: 429, with the wait that is left. */
  check(operation: Operation, { keyId, account }: Pick<Principal, "keyId" | "account">): void {
    if (this.#byKey.size === 0 && this.#byAccount.size === 0) return;
    if (!inferenceOperations.has(operation)) return;
    if (keyId !== null) this.#checkHeld(this.#byKey, keyId);
    this.#checkHeld(this.#byAccount, account);
  }

  /** Forgets all: limits were changed or a window was emptied. */
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

/** A refusal as it reads some time after it was made. */
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
