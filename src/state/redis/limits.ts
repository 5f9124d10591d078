import type { LimitOwner } from "../../domain/call/rate-limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Threshold, ThresholdStore } from "../../domain/events/events.js";
import type { LimitStore, StoredLimits } from "../../domain/metering/limit-book.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisClient } from "./connection/client.js";
import { byCreation, createDocuments, documentKeys, fromDocument, toDocument } from "./documents.js";

const limitsMax = 10_000;
const thresholdsMax = 10_000;

export function createRedisLimitStore(client: RedisClient, feed: RedisChangeFeed): LimitStore {
  const change = () => ({ kind: "limits" }) as const;
  const documents = createDocuments(client, feed, { key: documentKeys.limits, max: limitsMax, change });
  return {
    list: async () => (await documents.list()).map((text) => fromDocument<StoredLimits>(text)).sort(byOwner),
    async put(limits) {
      await documents.put(idOf(limits.owner), toDocument(limits), "any");
    },
    remove: (owner) => documents.remove(idOf(owner)),
  };
}

/** Field of the hash `limits` with the limits of one owner (account, key or model). */
export function idOf({ kind, id }: LimitOwner): string {
  return `${kind}:${id}`;
}

/** JSON of a threshold. Its value is written as text, because JSON has no int64. */
export function thresholdText(threshold: Threshold): string {
  return toDocument({ ...threshold, limit: String(threshold.limit) });
}

function byOwner({ owner: a }: StoredLimits, { owner: b }: StoredLimits): number {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

export function createRedisThresholdStore(client: RedisClient, feed: RedisChangeFeed): ThresholdStore {
  const change = () => ({ kind: "thresholds" }) as const;
  const documents = createDocuments(client, feed, { key: documentKeys.thresholds, max: thresholdsMax, change });
  const parse = (text: string): Threshold => {
    const threshold = fromDocument<Omit<Threshold, "limit"> & { limit: string }>(text);
    return { ...threshold, limit: BigInt(threshold.limit) };
  };
  return {
    list: async () => (await documents.list()).map(parse).sort(byCreation),
    async insert(threshold) {
      const isNew = await documents.put(threshold.id, thresholdText(threshold), "absent");
      if (!isNew) throw new ServiceError("conflict", "A threshold with this id exists.");
    },
    replace: (threshold) => documents.put(threshold.id, thresholdText(threshold), "present"),
    remove: (id) => documents.remove(id),
  };
}
