import { ServiceError } from "../../domain/call/service-error.js";
import type { Threshold, ThresholdStore } from "../../domain/events/threshold.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisClient } from "./connection/client.js";
import { Documents, documentKeys } from "./documents.js";

const form = 1;
const thresholdsMax = 10_000;

export class RedisThresholdStore implements ThresholdStore {
  readonly #documents: Documents;

  constructor(client: RedisClient, feed: RedisChangeFeed) {
    const { thresholds } = documentKeys(client.prefix);
    this.#documents = new Documents(client, feed, {
      key: thresholds,
      max: thresholdsMax,
      change: () => ({ kind: "thresholds" }),
    });
  }

  async list(): Promise<readonly Threshold[]> {
    return (await this.#documents.list()).map(parseThreshold).sort(byOldest);
  }

  async insert(threshold: Threshold): Promise<void> {
    const isNew = await this.#documents.put(threshold.id, thresholdText(threshold), "absent");
    if (!isNew) throw new ServiceError("conflict", "A threshold with this id exists.");
  }

  replace(threshold: Threshold): Promise<boolean> {
    return this.#documents.put(threshold.id, thresholdText(threshold), "present");
  }

  remove(id: string): Promise<boolean> {
    return this.#documents.remove(id);
  }
}

/** JSON has no int64: the limit is written as text. */
function thresholdText(threshold: Threshold): string {
  return JSON.stringify({ v: form, ...threshold, limit: String(threshold.limit) });
}

function parseThreshold(text: string): Threshold {
  const { v: _form, limit, ...rest } = JSON.parse(text) as { v: number; limit: string } & Omit<Threshold, "limit">;
  return { ...rest, limit: BigInt(limit) };
}

function byOldest(a: Threshold, b: Threshold): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
