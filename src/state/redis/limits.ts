import type { LimitOwner } from "../../domain/call/rate-limits.js";
import type { LimitStore, StoredLimits } from "../../domain/metering/limit-book.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisClient } from "./connection/client.js";
import { Documents, documentKeys } from "./documents.js";

const form = 1;
const limitsMax = 10_000;

export class RedisLimitStore implements LimitStore {
  readonly #documents: Documents;

  constructor(client: RedisClient, feed: RedisChangeFeed) {
    const { limits } = documentKeys(client.prefix);
    this.#documents = new Documents(client, feed, { key: limits, max: limitsMax, change: () => ({ kind: "limits" }) });
  }

  async list(): Promise<readonly StoredLimits[]> {
    return (await this.#documents.list()).map(parseLimits).sort(byOwner);
  }

  async put(limits: StoredLimits): Promise<void> {
    await this.#documents.put(idOf(limits.owner), JSON.stringify({ v: form, ...limits }), "any");
  }

  remove(owner: LimitOwner): Promise<boolean> {
    return this.#documents.remove(idOf(owner));
  }
}

function idOf({ kind, id }: LimitOwner): string {
  return `${kind}:${id}`;
}

function parseLimits(text: string): StoredLimits {
  const { v: _form, ...limits } = JSON.parse(text) as { v: number } & StoredLimits;
  return limits;
}

function byOwner({ owner: a }: StoredLimits, { owner: b }: StoredLimits): number {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
