import { createHash } from "node:crypto";
import type { Clock } from "../../../domain/call/ports.js";
import type { Secret } from "../../../lib/secret.js";

/** A key that was rejected is not used for this time, unless no other key works. */
const rejectedHoldMs = 10_000;
/** Wait after status 429 without a Retry-After, and the upper bound of the wait with one. */
const limitedHoldMs = 1_000;
const limitedHoldMaxMs = 300_000;

export interface UpstreamKey {
  /** Text of the key; null: the upstream needs no key. */
  readonly text: string | null;
  /** The key is not used for any model before this time; 0: usable. */
  heldUntilMs: number;
}

/** The keys of one upstream, each with a cooldown. Models use them through ModelKeys. */
export class KeyRing {
  readonly keys: readonly UpstreamKey[];
  /** Time at which the first key becomes usable; 0: a key is usable. Routing reads it for each request. */
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
 * cache prompts by key. A held key is not used for some time; if all keys are held, the one that becomes usable first is used,
 * so a single key is never blocked. A rejected key is held for all models of the upstream. A key that is rate limited, or may
 * not use this model, is held for this model only, because providers limit each model of a key separately.
 */
export class ModelKeys {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #ring: KeyRing;
  /** Time until which a key is held for this model only. */
  readonly #heldHereUntilMs = new Map<UpstreamKey, number>();

  constructor(clock: Pick<Clock, "monotonic">, ring: KeyRing) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** The key for an attempt of a tenant's request. Null: all usable keys were tried; a held key is used only as the first. */
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

  /** Holds the key for all models: the upstream answered 401. */
  rejected(key: UpstreamKey): void {
    this.#ring.hold(key, this.#clock.monotonic() + rejectedHoldMs);
  }

  /** Holds the key for this model: the upstream answered 403. */
  forbidden(key: UpstreamKey): void {
    this.#heldHereUntilMs.set(key, this.#clock.monotonic() + rejectedHoldMs);
  }

  /** Holds the key for this model: the upstream answered 429. `waitMs` null: it sent no Retry-After. */
  limited(key: UpstreamKey, waitMs: number | null): void {
    this.#heldHereUntilMs.set(key, this.#clock.monotonic() + Math.min(waitMs ?? limitedHoldMs, limitedHoldMaxMs));
  }

  /** Ends the hold of a key that the upstream accepted. `hold`: `holdOf` when the request began; a later hold stays. */
  accepted(key: UpstreamKey, hold: number): void {
    if (hold === 0 || hold !== this.holdOf(key)) return;
    this.#heldHereUntilMs.delete(key);
    if (key.heldUntilMs !== 0) this.#ring.hold(key, 0);
  }

  /** Milliseconds until the first key is usable; 0: a key is usable. */
  get heldForMs(): number {
    const { keys, allHeldUntilMs } = this.#ring;
    const isSimple = this.#heldHereUntilMs.size === 0;
    const untilMs = isSimple ? allHeldUntilMs : Math.min(...keys.map((key) => this.holdOf(key)));
    return untilMs === 0 ? 0 : Math.max(0, untilMs - this.#clock.monotonic());
  }
}
