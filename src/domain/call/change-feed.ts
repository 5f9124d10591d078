/** A change in the store, by any replica. Caches read the changed records again before their next use. */
export type StateChange =
  | { readonly kind: "key" | "session" | "endpoint"; readonly id: string }
  | { readonly kind: "limits" | "thresholds" | "settings" }
  /** Changes may have been missed: every cache must read again. */
  | { readonly kind: "lost_link" };

export interface ChangeFeed {
  /** Returns the function that unsubscribes. A listener never throws. */
  subscribe(listener: (change: StateChange) => void): () => void;
  /** False while changes by other replicas do not arrive: nothing may be cached (KEY-11). */
  readonly isLinked: boolean;
}

/**
 * Change feed of a store that a single process uses: it never loses its link, and listeners run before `notify`
 * returns.
 */
export class LocalChanges implements ChangeFeed {
  readonly isLinked = true;
  readonly #listeners = new Set<(change: StateChange) => void>();

  subscribe(listener: (change: StateChange) => void): () => void {
    // A new function each time, so that the same listener can subscribe twice and unsubscribe separately.
    const subscribed = (change: StateChange): void => listener(change);
    this.#listeners.add(subscribed);
    return () => void this.#listeners.delete(subscribed);
  }

  tell(change: StateChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}
