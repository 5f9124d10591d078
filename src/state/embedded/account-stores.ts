import { setImmediate } from "node:timers/promises";
import type { LocalChanges } from "../../domain/call/change-feed.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { ThresholdStore } from "../../domain/events/threshold.js";
import type { LimitStore } from "../../domain/metering/limit-book.js";
import {
  type UsageCursor,
  UsageGrouping,
  type UsageGroupsQuery,
  type UsageReader,
} from "../../domain/metering/usage-store.js";
import type { UsageSlice } from "./usage-rows.js";
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

/** Groups are added up in slices, one at a time over all queries, so that settlements run in between. */
export function createUsageReader(link: StoreLink): UsageReader {
  let last: Promise<unknown> = Promise.resolve();
  const slice = (query: UsageGroupsQuery, after: UsageCursor | null, signal: AbortSignal): Promise<UsageSlice> => {
    const next = last.then(async () => {
      signal.throwIfAborted();
      // The database in memory answers at once: other work gets its turn.
      await setImmediate();
      return await link.read("usageSlice", { ...query, after });
    });
    last = next.catch(() => {});
    return next;
  };
  return {
    rows: (range) => link.read("usageRows", range),
    async groups(query, signal) {
      const grouping = new UsageGrouping(query);
      let after = query.after;
      do {
        const { groups, end } = await slice(query, after, signal);
        for (const group of groups) grouping.add(group);
        const page = end === null ? grouping.rest() : grouping.page(end.startMs);
        if (page !== null) return page;
        after = end;
      } while (after !== null);
      return grouping.rest();
    },
    accounts: () => link.read("accounts"),
    used: (account, scope, period) => link.read("used", account, scope, period),
  };
}
