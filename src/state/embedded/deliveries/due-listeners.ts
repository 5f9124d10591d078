/** Who wants to know that something became due in this process. */
export class DueListeners {
  readonly #listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    // Its own function, so that the same listener may subscribe twice and end each by itself.
    const subscribed = (): void => listener();
    this.#listeners.add(subscribed);
    return () => void this.#listeners.delete(subscribed);
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
