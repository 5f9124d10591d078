import type { CatalogStore } from "../../domain/catalog/catalog.js";
import { loadScript, type RedisClient } from "./connection/client.js";
import { documentKeys } from "./documents.js";

const firstSeen = loadScript("first-seen");

export class RedisCatalogStore implements CatalogStore {
  readonly #client: RedisClient;
  readonly #key: string;

  constructor(client: RedisClient) {
    this.#client = client;
    this.#key = documentKeys(client.prefix).models;
  }

  async firstSeen(ids: readonly string[], nowMs: number): Promise<readonly number[]> {
    if (ids.length === 0) return [];
    const instants = await this.#client.run(firstSeen, [this.#key], [nowMs, ...ids]);
    return (instants as string[]).map(Number);
  }
}
