import type { Clock } from "../call/ports.js";
import { Ejection, type EjectionPeers, type EjectionState } from "./ejection.js";

/** Largest share of a model's deployments that is ejected; the others stay in use although they fail. */
const ejectedShareMax = 0.5;
/**
 * First tokens are slow if they take at least this multiple of the median and at least the minimum time. Without a minimum,
 * a deployment that answers from its cache would make the others slow.
 */
const slowFactor = 10;
const slowMinMs = 100;
/** The median is computed again after this time. */
const medianMaxAgeMs = 1_000;

/** The ejections of a model's deployments, and the decisions that depend on all of them. */
export class EjectionGroup implements EjectionPeers {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #members = new Set<Ejection>();
  #slowFirstTokenMs = Number.POSITIVE_INFINITY;
  #comparedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "now" | "monotonic">) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#members.size;
  }

  get mayEject(): boolean {
    let ejected = 0;
    for (const { countsAsEjected } of this.#members) if (countsAsEjected) ejected += 1;
    return ejected + 1 <= ejectedShareMax * this.#members.size;
  }

  /**
   * Computed from the lower median of the deployments' average times: of two deployments, the slower one is compared with
   * the faster one.
   */
  get slowFirstTokenMs(): number {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#comparedAtMs < medianMaxAgeMs) return this.#slowFirstTokenMs;
    this.#comparedAtMs = nowMs;
    const times = [...this.#members].flatMap(({ firstTokenMs }) => firstTokenMs ?? []).sort((a, b) => a - b);
    const median = times[(times.length - 1) >> 1];
    this.#slowFirstTokenMs = median === undefined ? Number.POSITIVE_INFINITY : Math.max(slowMinMs, slowFactor * median);
    return this.#slowFirstTokenMs;
  }

  /**
   * Adds a new deployment. `onChange` is called when it is ejected, returned or paused. `heldForMs` returns the time for
   * which its upstream has no usable key.
   */
  add(onChange: (state: EjectionState) => void, heldForMs: () => number = () => 0): Ejection {
    const ejection = new Ejection(this.#clock, this, onChange, heldForMs);
    this.#members.add(ejection);
    return ejection;
  }

  /** Removes a deployment. */
  remove(ejection: Ejection): void {
    this.#members.delete(ejection);
  }
}
