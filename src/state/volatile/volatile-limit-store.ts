import type { LocalChanges } from "../../domain/call/change-feed.js";
import type { LimitOwner } from "../../domain/call/rate-limits.js";
import type { LimitStore, StoredLimits } from "../../domain/metering/limit-book.js";
import { isFull } from "./bounded.js";

const limitsMax = 10_000;

export function createVolatileLimitStore(changes: LocalChanges): LimitStore {
  const byOwner = new Map<string, StoredLimits>();
  return {
    async list() {
      return [...byOwner].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, stored]) => stored);
    },
    async put(limits) {
      const name = nameOf(limits.owner);
      if (!byOwner.has(name) && byOwner.size >= limitsMax) throw isFull(limitsMax, "limits");
      byOwner.set(name, limits);
      changes.tell({ kind: "limits" });
    },
    async remove(owner) {
      if (!byOwner.delete(nameOf(owner))) return false;
      changes.tell({ kind: "limits" });
      return true;
    },
  };
}

/** Sorts by kind and id: no kind begins with another one. */
function nameOf({ kind, id }: LimitOwner): string {
  return `${kind}\n${id}`;
}
