import type { LimitStore } from "../../domain/limits/limit-store.js";
import type { LocalChanges } from "../../domain/local-changes.js";
import { ServiceError } from "../../domain/service-error.js";
import type { ThresholdStore } from "../../domain/usage/threshold.js";
import type { UsageReader } from "../../domain/usage/usage-store.js";
import type { DeliveryQueue } from "../../domain/webhooks/delivery-queue.js";
import type { EndpointStore } from "../../domain/webhooks/endpoint-store.js";
import type { StoreTime } from "./store-time.js";
import type { WorkerLink } from "./worker-link.js";

export function createLimitStore(link: WorkerLink, changes: LocalChanges): LimitStore {
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

export function createThresholdStore(link: WorkerLink, changes: LocalChanges): ThresholdStore {
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

export function createUsageReader(link: WorkerLink): UsageReader {
  return {
    rows: (range) => link.read("usageRows", range),
    accounts: () => link.read("accounts"),
    used: (account, scope, period) => link.read("used", account, scope, period),
  };
}

/** `counts`: how many endpoints each account has now. Nobody else writes the file, so they stay known. */
export function createEndpointStore(
  link: WorkerLink,
  changes: LocalChanges,
  counts: readonly (readonly [string, number])[],
): EndpointStore {
  const countByAccount = new Map(counts);
  const tell = (id: string): void => changes.tell({ kind: "endpoint", id });
  const count = (account: string, delta: 1 | -1): void => {
    countByAccount.set(account, (countByAccount.get(account) ?? 0) + delta);
    if (countByAccount.get(account) === 0) countByAccount.delete(account);
  };
  return {
    async insert(endpoint) {
      await link.write("insertEndpoint", endpoint);
      count(endpoint.account, 1);
      tell(endpoint.id);
    },
    async replace(endpoint) {
      const isReplaced = await link.write("replaceEndpoint", endpoint);
      if (isReplaced) tell(endpoint.id);
      return isReplaced;
    },
    list: (account) => link.read("listEndpoints", account),
    async remove(account, id) {
      const isRemoved = await link.write("removeEndpoint", account, id);
      if (isRemoved) {
        count(account, -1);
        tell(id);
      }
      return isRemoved;
    },
    mayHaveAny: (account) => countByAccount.has(account),
  };
}

export function createDeliveryQueue(link: WorkerLink, time: StoreTime): DeliveryQueue {
  return {
    list: (account, max) => link.read("listDeliveries", account, max),
    due: () => link.read("countDue", time.now()),
  };
}
