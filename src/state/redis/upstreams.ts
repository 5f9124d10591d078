import { type Drain, type DrainStore, drainsMax } from "../../domain/catalog/drained-deployments.js";
import { type StoredUpstream, storedUpstreamsMax, type UpstreamStore } from "../../domain/upstreams/upstream-store.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisClient } from "./connection/client.js";
import { createDocuments, documentKeys, fromDocument, toDocument } from "./documents.js";

export function createRedisUpstreamStore(client: RedisClient, feed: RedisChangeFeed): UpstreamStore {
  const change = () => ({ kind: "upstreams" }) as const;
  const key = documentKeys.upstreams;
  const documents = createDocuments(client, feed, { key, max: storedUpstreamsMax, change });
  const parse = (text: string) => fromDocument<StoredUpstream>(text);
  return {
    list: async () => (await documents.list()).map(parse).sort((a, b) => (a.name < b.name ? -1 : 1)),
    insert: (upstream) => documents.put(upstream.name, toDocument(upstream), "absent"),
    async replace(upstream) {
      const text = await documents.get(upstream.name);
      if (text === null) return "unknown";
      if (parse(text).version !== upstream.version - 1) return "changed";
      return (await documents.put(upstream.name, toDocument(upstream), { same: text })) ? "replaced" : "changed";
    },
    remove: (name) => documents.remove(name),
  };
}

export function createRedisDrainStore(client: RedisClient, feed: RedisChangeFeed): DrainStore {
  const change = () => ({ kind: "drains" }) as const;
  const documents = createDocuments(client, feed, { key: documentKeys.drains, max: drainsMax, change });
  const parse = (text: string) => fromDocument<Drain>(text);
  return {
    list: async () => (await documents.list()).map(parse).sort((a, b) => (a.id < b.id ? -1 : 1)),
    insert: (drain) => documents.put(drain.id, toDocument(drain), "absent"),
    remove: (id) => documents.remove(id),
  };
}
