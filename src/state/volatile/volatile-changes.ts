import type { ChangeFeed, StateChange } from "../../domain/state.js";

export interface VolatileChanges extends ChangeFeed {
  tell(change: StateChange): void;
}

/** Nobody but this process changes anything, so the link is never lost. */
export function createVolatileChanges(): VolatileChanges {
  const listeners = new Set<(change: StateChange) => void>();
  return {
    isLinked: true,
    subscribe(listener) {
      // One entry per subscription, also when the same function comes twice.
      const entry = (change: StateChange): void => listener(change);
      listeners.add(entry);
      return () => listeners.delete(entry);
    },
    tell(change) {
      for (const listener of listeners) listener(change);
    },
  };
}
