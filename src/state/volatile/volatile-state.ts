import type { CatalogStore } from "../../domain/catalog/catalog-store.js";
import { ServiceError } from "../../domain/service-error.js";
import type { State } from "../../domain/state.js";
import { createVolatileKeyStore } from "./volatile-key-store.js";

const modelsMax = 100_000;

/** Everything in memory (`state.durability: none`): tests, demonstrations and the benchmark's baseline. */
export function createVolatileState(): State {
  return {
    kind: "volatile",
    keys: createVolatileKeyStore(),
    catalog: createVolatileCatalogStore(),
    health: async () => ({
      ok: true,
      latencyMs: 0,
      durability: "none",
      warnings: ["State is kept in memory and is lost at the next start. Remove state.durability: none to keep it."],
    }),
    close: async () => {},
  };
}

function createVolatileCatalogStore(): CatalogStore {
  const firstSeenAtMs = new Map<string, number>();
  return {
    async firstSeen(ids, nowMs) {
      return ids.map((id) => {
        const known = firstSeenAtMs.get(id);
        if (known !== undefined) return known;
        if (firstSeenAtMs.size >= modelsMax) {
          throw new ServiceError("storage_unavailable", `The volatile store holds its ${modelsMax} model ids.`);
        }
        firstSeenAtMs.set(id, nowMs);
        return nowMs;
      });
    },
  };
}
