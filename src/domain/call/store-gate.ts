import type { Clock, Logger } from "./ports.js";

/** Failures in a row after which nobody waits for the store any more. */
const failuresMax = 3;
/** How often one request tries whether the store is back: it is used again within a second of its return. */
const tryEveryMs = 200;
/** Without a failure for so long, and the store is told to be back: one that is slow answers now and then. */
const steadyMs = 1_000;

export interface StoreGateDeps {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Logger;
  /** What the log says when the store is away, and when it is back. */
  readonly says: { readonly away: string; readonly back: string };
}

/**
 * Whether the shared store is worth waiting for, for one kind of call. After some failures in a row it is not, but for one
 * call every 200 ms, which finds out when it is back. Tells of each change once in the log, not for each call.
 */
export class StoreGate {
  readonly #deps: StoreGateDeps;
  #failures = 0;
  #triedAtMs = 0;
  #failedAtMs = 0;
  #isAway = false;

  constructor(deps: StoreGateDeps) {
    this.#deps = deps;
  }

  /** A call got no answer, and not all have been answered for a second since then. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /** Whether nobody waits for the store, whoever may try it. */
  get isShut(): boolean {
    return this.#failures >= failuresMax;
  }

  /** Whether to ask the store now. */
  get isOpen(): boolean {
    if (!this.isShut) return true;
    const nowMs = this.#deps.clock.monotonic();
    if (nowMs - this.#triedAtMs < tryEveryMs) return false;
    this.#triedAtMs = nowMs;
    return true;
  }

  answered(): void {
    this.#failures = 0;
    if (!this.#isAway || this.#deps.clock.monotonic() - this.#failedAtMs < steadyMs) return;
    this.#isAway = false;
    this.#deps.log.info({}, this.#deps.says.back);
  }

  failed(cause: unknown): void {
    const { clock, log, says } = this.#deps;
    this.#failedAtMs = clock.monotonic();
    this.#failures += 1;
    if (this.#failures === failuresMax) this.#triedAtMs = this.#failedAtMs;
    if (this.#isAway) return;
    this.#isAway = true;
    log.error({ err: cause }, says.away);
  }
}
