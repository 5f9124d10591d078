import type { ChangeFeed, StateChange } from "../../src/domain/call/ports.js";

/** A change feed whose changes are emitted by the test. */
export class HandFeed implements ChangeFeed {
  isLinked = true;
  isComplete = false;
  readonly #listeners = new Set<(change: StateChange) => void>();

  subscribe(listener: (change: StateChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(change: StateChange): void {
    for (const listener of [...this.#listeners]) listener(change);
  }
}
