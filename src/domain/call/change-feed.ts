/** What changed in the store, whoever changed it. Whoever remembers such things reads them again before the next use. */
export type StateChange =
  | { readonly kind: "key" | "session" | "endpoint"; readonly id: string }
  | { readonly kind: "limits" | "thresholds" | "settings" }
  /** Changes may have been missed: nothing that is remembered may be believed unread. */
  | { readonly kind: "lost_link" };

export interface ChangeFeed {
  /** The returned function ends it. A listener never throws. */
  subscribe(listener: (change: StateChange) => void): () => void;
  /** False while changes of others do not arrive: what is read is not to be remembered (KEY-11). */
  readonly isLinked: boolean;
}

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
