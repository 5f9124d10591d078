import { StoreCache, type StoreCacheDeps } from "../call/store-cache.js";
import type { StoredUpstream } from "./upstream-store.js";

/** Cache of the stored upstreams. */
export class UpstreamBook extends StoreCache<StoredUpstream> {
  #stored: readonly StoredUpstream[] = [];
  readonly #listeners = new Set<() => void>();

  constructor(deps: StoreCacheDeps<StoredUpstream>) {
    super("upstreams", deps);
  }

  protected override take(stored: readonly StoredUpstream[]): void {
    const isSame =
      stored.length === this.#stored.length &&
      stored.every((one, i) => {
        const known = this.#stored[i];
        // An upstream that was removed and created again has the same first version, so `createdAtMs` is compared, too.
        return known?.name === one.name && known.version === one.version && known.createdAtMs === one.createdAtMs;
      });
    if (isSame) return;
    this.#stored = stored;
    for (const changed of this.#listeners) changed();
  }

  /** Stored upstreams, sorted by name. */
  get stored(): readonly StoredUpstream[] {
    return this.#stored;
  }

  onChange(changed: () => void): void {
    this.#listeners.add(changed);
  }
}
