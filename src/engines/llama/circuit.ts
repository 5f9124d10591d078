/** Crashes are counted over this long. */
const windowMs = 300_000;
const coolDownMinMs = 10_000;
const coolDownMaxMs = 300_000;

/**
 * Counts the crashes of one model's child and says when to stop trying. It opens at more than `crashesMax` crashes in
 * five minutes, cools down for 10 s, and for twice as long each time it opens again, up to five minutes; five minutes
 * after a cool-down it begins at 10 s again.
 */
export class Circuit {
  readonly #crashesMax: number;
  #crashesAtMs: number[] = [];
  #openings = 0;
  #openUntilMs = Number.NEGATIVE_INFINITY;

  constructor(crashesMax: number) {
    this.#crashesMax = crashesMax;
  }

  /** Counts a crash. True: that is too many, the circuit must open. */
  crashed(nowMs: number): boolean {
    this.#crashesAtMs = this.#crashesAtMs.filter((atMs) => atMs > nowMs - windowMs);
    this.#crashesAtMs.push(nowMs);
    return this.#crashesAtMs.length > this.#crashesMax;
  }

  /** Opens it; the answer is the cool-down in milliseconds. */
  open(nowMs: number): number {
    if (nowMs - this.#openUntilMs > windowMs) this.#openings = 0;
    const coolDownMs = Math.min(coolDownMaxMs, coolDownMinMs * 2 ** this.#openings++);
    this.#openUntilMs = nowMs + coolDownMs;
    return coolDownMs;
  }
}
