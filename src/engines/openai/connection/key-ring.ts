import { createHash } from "node:crypto";
import type { Clock } from "../../../domain/call/ports.js";
import type { Secret } from "../../../lib/secret.js";

/** A key that was rejected is used again after this time, if other keys work. */
const rejectedHoldMs = 10_000;
/** Wait after 429 without a Retry-After, and its upper bound. */
const limitedHoldMs = 1_000;
const limitedHoldMaxMs = 300_000;

export interface UpstreamKey {
  /** Null: the upstream needs no key. */
  readonly text: string | null;
  /** Not used before, for any model; 0: usable. */
  heldUntilMs: number;
}

/** The keys of one upstream, each with a cooldown. Models use them through ModelKeys. */
export class KeyRing {
  readonly keys: readonly UpstreamKey[];
  /** When the first key becomes usable; 0: one is. Routing reads it for each request. */
  allHeldUntilMs = 0;

  constructor(keys: readonly Secret[]) {
    const texts = keys.length === 0 ? [null] : keys.map((key) => key.reveal());
    this.keys = texts.map((text) => ({ text, heldUntilMs: 0 }));
  }

  /** The keys themselves, to remove them from texts. */
  get texts(): readonly string[] {
    return this.keys.flatMap(({ text }) => (text === null ? [] : [text]));
  }

  /** A usable key, or the one that becomes usable first. */
  get soonest(): UpstreamKey {
    return this.keys.reduce((soonest, key) => (key.heldUntilMs < soonest.heldUntilMs ? key : soonest));
  }

  hold(key: UpstreamKey, untilMs: number): void {
    key.heldUntilMs = untilMs;
    this.allHeldUntilMs = Math.min(...this.keys.map(({ heldUntilMs }) => heldUntilMs));
  }
}

/**
 * The keys of an upstream as one of its models uses them. A tenant keeps its key while that is usable, because providers
 * cache prompts by key. When all keys are held, the one that becomes usable first is used: a single key is never blocked
 * here. A key that is rejected is held for all models of the upstream. One that is limited, or may not use this model, is held
 * for this one alone: providers limit each model of a key separately, and a limit of all of them shows at each.
 */
export class ModelKeys {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #ring: KeyRing;
  /** Ends of the holds for this model alone. */
  readonly #heldHereUntilMs = new Map<UpstreamKey, number>();

  constructor(clock: Pick<Clock, "monotonic">, ring: KeyRing) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** The key for an attempt of a tenant's request. Null: each usable key was tried, or all are held after the first try. */
  pick(tenant: string, tried: readonly UpstreamKey[]): UpstreamKey | null {
    const { keys } = this.#ring;
    const [only] = keys;
    if (keys.length === 1) return tried.length === 0 && only !== undefined ? only : null;
    const nowMs = this.#clock.monotonic();
    const from = createHash("sha256").update(tenant).digest().readUInt32LE(0);
    let soonest: UpstreamKey | null = null;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[(from + i) % keys.length];
      if (key === undefined || tried.includes(key)) continue;
      if (this.holdOf(key) <= nowMs) return key;
      if (soonest === null || this.holdOf(key) < this.holdOf(soonest)) soonest = key;
    }
    return tried.length === 0 ? soonest : null;
  }

  /** End of the key's hold, which may be over; 0: none. */
  holdOf(key: UpstreamKey): number {
    return Math.max(key.heldUntilMs, this.#heldHereUntilMs.get(key) ?? 0);
  }

  /** The upstream answered 401. */
  rejected(key: UpstreamKey): void {
    this.#ring.hold(key, this.#clock.monotonic() + rejectedHoldMs);
  }

  /** The upstream answered 403. */
  forbidden(key: UpstreamKey): void {
    this.#heldHereUntilMs.set(key, this.#clock.monotonic() + rejectedHoldMs);
  }

  /** The upstream answered 429; `waitMs` null: without a Retry-After. */
  limited(key: UpstreamKey, waitMs: number | null): void {
    this.#heldHereUntilMs.set(key, this.#clock.monotonic() + Math.min(waitMs ?? limitedHoldMs, limitedHoldMaxMs));
  }

  /** The upstream accepted the key. A hold that began after the request, whose `holdOf` was `hold`, stays. */
  accepted(key: UpstreamKey, hold: number): void {
    if (hold === 0 || hold !== this.holdOf(key)) return;
    this.#heldHereUntilMs.delete(key);
    if (key.heldUntilMs !== 0) this.#ring.hold(key, 0);
  }

  /** Milliseconds until a key is usable; 0: one is. */
  get heldForMs(): number {
    const { keys, allHeldUntilMs } = this.#ring;
    const isSimple = this.#heldHereUntilMs.size === 0;
    const untilMs = isSimple ? allHeldUntilMs : Math.min(...keys.map((key) => this.holdOf(key)));
    return untilMs === 0 ? 0 : Math.max(0, untilMs - this.#clock.monotonic());
  }
}
