import type { LocalChanges } from "../../domain/call/change-feed.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Threshold, ThresholdStore } from "../../domain/events/threshold.js";
import { isFull } from "./bounded.js";

const thresholdsMax = 10_000;

export function createVolatileThresholdStore(changes: LocalChanges): ThresholdStore {
  const byId = new Map<string, Threshold>();
  return {
    async list() {
      return [...byId.values()].sort((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1));
    },
    async insert(threshold) {
      if (byId.has(threshold.id)) throw new ServiceError("conflict", "A threshold with this id exists.");
      if (byId.size >= thresholdsMax) throw isFull(thresholdsMax, "thresholds");
      byId.set(threshold.id, threshold);
      changes.tell({ kind: "thresholds" });
    },
    async replace(threshold) {
      if (!byId.has(threshold.id)) return false;
      byId.set(threshold.id, threshold);
      changes.tell({ kind: "thresholds" });
      return true;
    },
    async remove(id) {
      if (!byId.delete(id)) return false;
      changes.tell({ kind: "thresholds" });
      return true;
    },
  };
}
