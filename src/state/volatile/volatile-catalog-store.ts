import type { CatalogStore } from "../../domain/catalog/catalog.js";
import { isFull } from "./bounded.js";

const modelsMax = 100_000;

/** At most 100,000 model ids; one more is `storage_unavailable`. */
export function createVolatileCatalogStore(): CatalogStore {
  const firstSeenAtMs = new Map<string, number>();
  return {
    async firstSeen(ids, nowMs) {
      return ids.map((id) => {
        const known = firstSeenAtMs.get(id);
        if (known !== undefined) return known;
        if (firstSeenAtMs.size >= modelsMax) throw isFull(modelsMax, "model ids");
        firstSeenAtMs.set(id, nowMs);
        return nowMs;
      });
    },
  };
}
