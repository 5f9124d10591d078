import type { ChangeFeed, Clock, Logger, StateChange } from "./ports.js";

export interface StoreCacheDeps<T> {
  /** Rejects while the store is unavailable. */
  readonly store: { list(): Promise<readonly T[]> };
  readonly changes: ChangeFeed;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Maximum age when a change was missed (state RL-15). */
const refreshEveryMs = 30_000;

/** Cache of a small list of the store, read after every change and every 30 s. An outage keeps the last known list. */
export abstract class StoreCache<T> {
  readonly #kind: StateChange["kind"];
  readonly #deps: StoreCacheDeps<T>;
  readonly #unsubscribe: () => void;
  #reading: Promise<void> | null = null;
  #readAgain = false;
  #cancelTimer = (): void => {};
  #closed = false;

  /** `changed` is the kind of change that invalidates the list. */
  constructor(changed: StateChange["kind"], deps: StoreCacheDeps<T>) {
    this.#kind = changed;
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe(({ kind }) => {
      if (kind === changed || kind === "lost_link") void this.refresh();
    });
  }

  /** Receives the list after each read. */
  protected abstract take(list: readonly T[]): void;

  /** Resolves when the list is read, or when the store does not answer, which is logged. */
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
    const { store, clock, log } = this.#deps;
    this.#cancelTimer();
    try {
      do {
        this.#readAgain = false;
        this.take(await store.list());
      } while (this.#readAgain);
    } catch (err) {
      log.warn({ err, what: this.#kind }, "store could not be read; using the last known values");
    }
    if (!this.#closed) this.#cancelTimer = clock.after(refreshEveryMs, () => void this.refresh());
  }
}
