import type { ChangeFeed, Clock, Logger, StateChange } from "../call/ports.js";

export interface RefreshingCacheDeps<T> {
  /** The kind of change that invalidates it. */
  readonly kind: StateChange["kind"];
  readonly read: () => Promise<T>;
  /** Receives the value. */
  readonly take: (value: T) => void;
  readonly changes: ChangeFeed;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Maximum age when a change was missed (state RL-15). */
const refreshEveryMs = 30_000;

/**
 * Refreshing cache of a small record of the store: read after every change and every 30 s. During an outage the last
 * known value stays.
 */
export class RefreshingCache<T> {
  readonly #deps: RefreshingCacheDeps<T>;
  readonly #unsubscribe: () => void;
  #reading: Promise<void> | null = null;
  #readAgain = false;
  #cancelTimer = (): void => {};
  #closed = false;

  constructor(deps: RefreshingCacheDeps<T>) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe(({ kind }) => {
      if (kind === deps.kind || kind === "lost_link") void this.refresh();
    });
  }

  /** Resolves when the stored value is loaded, or when the store does not answer, which is logged. */
  refresh(): Promise<void> {
    if (this.#reading !== null) {
      // The read in progress may predate the change.
      this.#readAgain = true;
      return this.#reading;
    }
    this.#reading = this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
    this.#unsubscribe();
  }

  async #read(): Promise<void> {
    const { kind, read, take, clock, log } = this.#deps;
    this.#cancelTimer();
    try {
      do {
        this.#readAgain = false;
        take(await read());
      } while (this.#readAgain);
    } catch (err) {
      log.warn({ err, what: kind }, "store could not be read; using the last known values");
    }
    if (!this.#closed) this.#cancelTimer = clock.after(refreshEveryMs, () => void this.refresh());
  }
}
