import { createHash } from "node:crypto";
import type { Clock } from "../../../domain/call/ports.js";
import type { Secret } from "../../../lib/secret.js";

/** A key that was rejected is used again after this time, if other keys work. */
const rejectedHoldMs = 60_000;
/** Wait after 429 without a Retry-After, and its upper bound. */
const limitedHoldMs = 1_000;
const limitedHoldMaxMs = 300_000;

export interface UpstreamKey {
  /** Null: the upstream needs no key. */
  readonly text: string | null;
  /** Not used before; 0: usable. */
  heldUntilMs: number;
}

/**
 * The keys of one upstream, each with a cooldown. A tenant keeps its key while that is usable, because providers cache
 * prompts by key. When all keys are held, the one that becomes usable first is used: a single key is never blocked here.
 */
export class KeyRing {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #keys: readonly UpstreamKey[];
  /** When the first key becomes usable; 0: one is. Routing reads it for each request. */
  #allHeldUntilMs = 0;

  constructor(clock: Pick<Clock, "monotonic">, keys: readonly Secret[]) {
    this.#clock = clock;
    const texts = keys.length === 0 ? [null] : keys.map((key) => key.reveal());
    this.#keys = texts.map((text) => ({ text, heldUntilMs: 0 }));
  }

  /** The key for an attempt of a tenant's request. Null: each usable key was tried, or all are held after the first try. */
  pick(tenant: string, tried: readonly UpstreamKey[]): UpstreamKey | null {
    const [only] = this.#keys;
    if (this.#keys.length === 1) return tried.length === 0 && only !== undefined ? only : null;
    const nowMs = this.#clock.monotonic();
    const from = createHash("sha256").update(tenant).digest().readUInt32LE(0);
    let soonest: UpstreamKey | null = null;
    for (let i = 0; i < this.#keys.length; i++) {
      const key = this.#keys[(from + i) % this.#keys.length];
      if (key === undefined || tried.includes(key)) continue;
      if (key.heldUntilMs <= nowMs) return key;
      if (soonest === null || key.heldUntilMs < soonest.heldUntilMs) soonest = key;
    }
    return tried.length === 0 ? soonest : null;
  }

  /** The upstream answered 401 or 403. */
  rejected(key: UpstreamKey): void {
    this.#hold(key, this.#clock.monotonic() + rejectedHoldMs);
  }

  /** The upstream answered 429; `waitMs` null: without a Retry-After. */
  limited(key: UpstreamKey, waitMs: number | null): void {
    this.#hold(key, this.#clock.monotonic() + Math.min(waitMs ?? limitedHoldMs, limitedHoldMaxMs));
  }

  /** The upstream accepted the key. */
  accepted(key: UpstreamKey): void {
    if (key.heldUntilMs !== 0) this.#hold(key, 0);
  }

  /** Milliseconds until a key is usable; 0: one is. */
  get heldForMs(): number {
    if (this.#allHeldUntilMs === 0) return 0;
    return Math.max(0, this.#allHeldUntilMs - this.#clock.monotonic());
  }

  /** The keys themselves, to remove them from texts. */
  get texts(): readonly string[] {
    return this.#keys.flatMap(({ text }) => (text === null ? [] : [text]));
  }

  #hold(key: UpstreamKey, untilMs: number): void {
    key.heldUntilMs = untilMs;
    this.#allHeldUntilMs = Math.min(...this.#keys.map(({ heldUntilMs }) => heldUntilMs));
  }
}
