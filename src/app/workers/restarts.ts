/** Number of crashes within `windowMs`, of all workers together, after which the service ends. */
const crashesMax = 5;
const windowMs = 5 * 60_000;
/** Wait before the first, second … replacement within the window. A worker is replaced within 2 s after its end. */
const delaysMs = [0, 250, 500, 1_000] as const;

/** Decides how soon a worker that has crashed is replaced. */
export class Restarts {
  readonly #now: () => number;
  #crashedAtMs: number[] = [];

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Records a crash. Returns the wait before its replacement; null: there were too many, and the service must end. */
  crashed(): number | null {
    const now = this.#now();
    this.#crashedAtMs = [...this.#crashedAtMs.filter((atMs) => now - atMs < windowMs), now];
    return this.#crashedAtMs.length >= crashesMax ? null : (delaysMs[this.#crashedAtMs.length - 1] ?? null);
  }
}

export const tooManyCrashes = `the workers crashed ${crashesMax} times within ${windowMs / 60_000} minutes: the service ends; its log has the causes`;
