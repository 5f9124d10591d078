import { StoreCache, type StoreCacheDeps } from "../call/store-cache.js";

/** A deployment that gets no new requests until an administrator puts it back into use. */
export interface Drain {
  /** Id of the deployment. */
  readonly id: string;
  readonly sinceMs: number;
}

/** Maximum number of drains in a store. */
export const drainsMax = 10_000;

/** Port of the store of drains. Changes are published on the change feed. Rejects with `storage_unavailable`. */
export interface DrainStore {
  /** All drains, ordered by id. */
  list(): Promise<readonly Drain[]>;
  /** False if the deployment drains already. Rejects with `storage_unavailable` beyond 10,000. */
  insert(drain: Drain): Promise<boolean>;
  /** False for a deployment that does not drain. */
  remove(id: string): Promise<boolean>;
}

/** Cache of the drains in the store. A drain applies to all replicas. */
export class DrainedDeployments extends StoreCache<Drain> {
  #ids: ReadonlySet<string> = new Set();
  readonly #listeners = new Set<() => void>();

  constructor(deps: StoreCacheDeps<Drain>) {
    super("drains", deps);
  }

  protected override take(drains: readonly Drain[]): void {
    const ids = new Set(drains.map(({ id }) => id));
    const isSame = ids.size === this.#ids.size && [...ids].every((id) => this.#ids.has(id));
    this.#ids = ids;
    if (!isSame) for (const changed of this.#listeners) changed();
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  onChange(changed: () => void): void {
    this.#listeners.add(changed);
  }
}
