/**
 * When a call went from one part to the next, in milliseconds of the monotonic clock. Numbers that are not known yet are
 * NaN inside: a field that is always a number costs no allocation.
 */
export class CallTimes {
  readonly #arrivedAtMs: number;
  #engineBeganAtMs = Number.NaN;
  #engineEndedAtMs = Number.NaN;
  #admitMs = 0;
  #queueMs = 0;
  #firstAtMs = Number.NaN;
  #firstTokens = 0;
  #isReadAlong = false;

  constructor(arrivedAtMs: number) {
    this.#arrivedAtMs = arrivedAtMs;
  }

  /** Its limits are decided, which took so long. */
  admitted(ms: number): void {
    this.#admitMs = ms;
  }

  /** It has a slot; a batch gets several, and the first one counts. `queueMs` is the whole wait so far. */
  engineBegan(atMs: number, queueMs: number): void {
    if (Number.isNaN(this.#engineBeganAtMs)) this.#engineBeganAtMs = atMs;
    this.#queueMs = queueMs;
  }

  /** First content, after which `tokens` tokens are known. Told once. */
  firstContent(atMs: number, tokens: number, isReadAlong: boolean): void {
    this.#firstAtMs = atMs;
    this.#firstTokens = tokens;
    this.#isReadAlong = isReadAlong;
  }

  /** The engine has said its last word; the first report counts. */
  engineEnded(atMs: number): void {
    if (Number.isNaN(this.#engineEndedAtMs)) this.#engineEndedAtMs = atMs;
  }

  sinceArrival(atMs: number): number {
    return atMs - this.#arrivedAtMs;
  }

  /** How long the decision of its limits took; 0 where none was asked for. */
  get admitMs(): number {
    return this.#admitMs;
  }

  /** How long it waited for a slot; 0 without one. */
  get queueMs(): number {
    return this.#queueMs;
  }

  /** From its arrival to its slot; null: it got none. */
  get engineBeganMs(): number | null {
    return orNull(this.#engineBeganAtMs - this.#arrivedAtMs);
  }

  /** From its slot to the engine's last word; null: no engine ran. */
  get engineMs(): number | null {
    return orNull(this.#engineEndedAtMs - this.#engineBeganAtMs);
  }

  /** From its arrival to the first content of a stream; null: nobody read along, or there was no content. */
  get firstTokenMs(): number | null {
    return this.#isReadAlong ? orNull(this.#firstAtMs - this.#arrivedAtMs) : null;
  }

  /** Mean time between two of `tokens` tokens; null where the engine told of all of them at once. */
  tokenGapMs(tokens: number): number | null {
    const later = tokens - this.#firstTokens;
    return later > 0 ? orNull((this.#engineEndedAtMs - this.#firstAtMs) / later) : null;
  }
}

function orNull(ms: number): number | null {
  return Number.isNaN(ms) ? null : ms;
}
