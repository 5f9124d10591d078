const delayMinMs = 100;
const delayMaxMs = 5_000;
/** A child that lived this long after its load was healthy. */
const healthyMs = 10_000;

/** How long to wait before a child is started again: 100 ms after a healthy life, twice as long after each short one, 5 s at most. */
export class RestartDelay {
  #shortLives = 0;

  /** `lifeMs`: since the model was loaded; 0 when it never was. */
  after(lifeMs: number): number {
    if (lifeMs >= healthyMs) this.#shortLives = 0;
    return Math.min(delayMaxMs, delayMinMs * 2 ** this.#shortLives++);
  }
}
