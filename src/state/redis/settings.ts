import type { SettingsStore, StoredSetting } from "../../domain/access/administrator.js";
import type { CatalogStore } from "../../domain/catalog/catalog.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient } from "./connection/client.js";
import { createDocuments, documentKeys, fromDocument, toDocument } from "./documents.js";

const firstSeen = loadScript("first-seen");
/** Maximum number of settings. It is never reached, because the names of settings are constants of the code. */
const settingsMax = 100;

export function createRedisSettingsStore(client: RedisClient, feed: RedisChangeFeed): SettingsStore {
  const change = () => ({ kind: "settings" }) as const;
  const documents = createDocuments(client, feed, { key: documentKeys.settings, max: settingsMax, change });
  return {
    async get(name) {
      const text = await documents.get(name);
      return text === null ? null : fromDocument<StoredSetting>(text);
    },
    async put(name, value, expectedVersion) {
      if (expectedVersion === null) return documents.put(name, toDocument({ version: 1, value }), "absent");
      const text = await documents.get(name);
      if (text === null || fromDocument<StoredSetting>(text).version !== expectedVersion) return false;
      return documents.put(name, toDocument({ version: expectedVersion + 1, value }), { same: text });
    },
    async remove(name) {
      await documents.remove(name);
    },
  };
}

export function createRedisCatalogStore(client: RedisClient): CatalogStore {
  return {
    async firstSeen(ids, nowMs) {
      if (ids.length === 0) return [];
      return ((await client.run(firstSeen, [documentKeys.models], [nowMs, ...ids])) as string[]).map(Number);
    },
  };
}
