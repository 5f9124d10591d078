import type { LocalChanges } from "../../domain/call/change-feed.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { ThresholdStore } from "../../domain/events/threshold.js";
import type { LimitStore } from "../../domain/metering/limit-book.js";
import type { UsageReader } from "../../domain/metering/usage-store.js";
import type { StoreLink } from "./worker-link.js";

export function createLimitStore(link: StoreLink, changes: LocalChanges): LimitStore {
  return {
    list: () => link.read("listLimits"),
    async put(limits) {
      const isPut = await link.write("putLimits", limits);
      if (!isPut) throw new ServiceError("storage_unavailable", "The store holds its 10000 limits.");
      changes.tell({ kind: "limits" });
    },
    async remove(owner) {
      const isRemoved = await link.write("removeLimits", owner);
      if (isRemoved) changes.tell({ kind: "limits" });
      return isRemoved;
    },
  };
}

export function createThresholdStore(link: StoreLink, changes: LocalChanges): ThresholdStore {
  return {
    list: () => link.read("listThresholds"),
    async insert(threshold) {
      await link.write("insertThreshold", threshold);
      changes.tell({ kind: "thresholds" });
    },
    async replace(threshold) {
      const isReplaced = await link.write("replaceThreshold", threshold);
      if (isReplaced) changes.tell({ kind: "thresholds" });
      return isReplaced;
    },
    async remove(id) {
      const isRemoved = await link.write("removeThreshold", id);
      if (isRemoved) changes.tell({ kind: "thresholds" });
      return isRemoved;
    },
  };
}

export function createUsageReader(link: StoreLink): UsageReader {
  return {
    rows: (range) => link.read("usageRows", range),
    accounts: () => link.read("accounts"),
    used: (account, scope, period) => link.read("used", account, scope, period),
  };
}
