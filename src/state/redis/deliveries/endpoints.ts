import { invariant, ServiceError } from "../../../domain/call/service-error.js";
import type { EndpointRecord, EndpointStore, KeptEndpoint } from "../../../domain/webhooks/endpoint-store.js";
import type { RedisChangeFeed } from "../connection/change-feed.js";
import type { RedisClient } from "../connection/client.js";
import { keySpace } from "../connection/key-space.js";
import { type DueShards, deliveryScripts } from "./due-shards.js";
import { parseHealth } from "./encoding.js";

const formatVersion = 1;

type Outcome = "done" | "taken" | "full" | "unknown" | "changed";

/**
 * Endpoints are on the shard of their account, because scripts on that shard read them: settlements read the status and the
 * subscribed events, and claims of deliveries read the status and the slots.
 */
export function createRedisEndpointStore(client: RedisClient, feed: RedisChangeFeed, shards: DueShards): EndpointStore {
  const write = (verb: string, account: string, id: string, text: string, max: number): Promise<Outcome> =>
    feed.publishing(
      [{ kind: "endpoint", id }],
      async ([message = ""]) => {
        const args = [verb, account, id, text, max, feed.channel, message];
        const shard = keySpace.shardOf(account).index;
        const [outcome] = await shards.runAndNotify(deliveryScripts.writeEndpoint, shard, args);
        return outcome as Outcome;
      },
      (outcome) => outcome === "done",
    );

  /** Sends the commands of two reads to Redis in one write to the socket. */
  const both = <A, B>(first: () => Promise<A>, second: () => Promise<B>): Promise<[A, B]> => {
    let answers: Promise<[A, B]> | undefined;
    client.together(() => {
      answers = Promise.all([first(), second()]);
    });
    invariant(answers !== undefined, "`together` calls its function synchronously");
    return answers;
  };

  return {
    async insert(endpoint, max) {
      const outcome = await write("insert", endpoint.account, endpoint.id, endpointText(endpoint), max);
      if (outcome === "taken") throw new ServiceError("conflict", "An endpoint with this id exists.");
      return outcome === "done";
    },
    async replace(endpoint) {
      const outcome = await write("replace", endpoint.account, endpoint.id, endpointText(endpoint), 0);
      if (outcome === "done") return "replaced";
      invariant(outcome === "changed" || outcome === "unknown", "a replacement has no other outcome");
      return outcome;
    },
    async find(account, id) {
      const { endpoints, endpointHealth } = keySpace.shardOf(account);
      const [text, health] = await both(
        () => client.command<string | null>("hget", [endpoints(account), id]),
        () => client.command<string | null>("hget", [endpointHealth(account), id]),
      );
      return text === null ? null : { record: parseEndpoint(text), health: parseHealth(health) };
    },
    async list(account): Promise<readonly KeptEndpoint[]> {
      const { endpoints, endpointHealth } = keySpace.shardOf(account);
      const [texts, healths] = await both(
        () => client.command<string[]>("hvals", [endpoints(account)]),
        () => client.command<Record<string, string>>("hgetall", [endpointHealth(account)]),
      );
      const records = texts.map(parseEndpoint).sort(byOldest);
      return records.map((record) => ({ record, health: parseHealth(healths[record.id] ?? null) }));
    },
    remove: async (account, id) => (await write("remove", account, id, "", 0)) === "done",
    // Always true, because another replica may have added an endpoint just now.
    mayHaveAny: () => true,
  };
}

/** Stored format, also read by scripts: `<status>|<event,event>|<most in flight>|<version>|<JSON>`. */
export function endpointText(endpoint: EndpointRecord): string {
  const { status, events, maxInFlight, version } = endpoint;
  return `${status}|${events.join(",")}|${maxInFlight}|${version}|${JSON.stringify({ v: formatVersion, ...endpoint })}`;
}

function parseEndpoint(text: string): EndpointRecord {
  const { v: _version, ...endpoint } = JSON.parse(text.slice(text.indexOf("{"))) as { v: number } & EndpointRecord;
  return endpoint;
}

function byOldest(a: EndpointRecord, b: EndpointRecord): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
