import type { ChangeFeed, StateChange } from "./state.js";

/**
 * The change feed of a store that one process has for itself: nobody else changes anything, so the link is never lost,
 * and what is told is heard before `tell` returns.
 */
export class LocalChanges implements ChangeFeed {
  readonly isLinked = true;
  readonly #listeners = new Set<(change: StateChange) => void>();

  subscribe(listener: (change: StateChange) => void): () => void {
    // Its own function, so that the same listener may subscribe twice and end each by itself.
    const subscribed = (change: StateChange): void => listener(change);
    this.#listeners.add(subscribed);
    return () => void this.#listeners.delete(subscribed);
  }

  tell(change: StateChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}
