/** Remembers when each model id first became available, so that `created` is stable over restarts (MODEL-2). */
export interface CatalogStore {
  /** Stores `nowMs` for ids that are new and returns the instant of each, in the order of the ids. */
  firstSeen(ids: readonly string[], nowMs: number): Promise<readonly number[]>;
}
