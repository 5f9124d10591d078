import { invariant, ServiceError } from "../../domain/call/service-error.js";
import type { EndpointRecord, EndpointStore, KeptEndpoint } from "../../domain/webhooks/endpoint-store.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisClient } from "./connection/client.js";
import type { KeySpace } from "./connection/key-space.js";
import { type DueShards, deliveryScripts } from "./deliveries/due-shards.js";
import { parseHealth } from "./deliveries/encoding.js";

const form = 1;

type Outcome = "done" | "taken" | "full" | "unknown" | "changed";

export interface RedisEndpointStoreDeps {
  readonly client: RedisClient;
  readonly feed: Pick<RedisChangeFeed, "telling" | "channel">;
  readonly space: KeySpace;
  readonly shards: DueShards;
}

/**
 * Endpoints lie with the ledger of their account, whose settlements read the status and the events of each, and with its
 * deliveries, whose claims read the status and how many may be under way.
 */
export class RedisEndpointStore implements EndpointStore {
  readonly #client: RedisClient;
  readonly #feed: Pick<RedisChangeFeed, "telling" | "channel">;
  readonly #space: KeySpace;
  readonly #shards: DueShards;

  constructor({ client, feed, space, shards }: RedisEndpointStoreDeps) {
    this.#client = client;
    this.#feed = feed;
    this.#space = space;
    this.#shards = shards;
  }

  async insert(endpoint: EndpointRecord, max: number): Promise<boolean> {
    const outcome = await this.#write("insert", endpoint.account, endpoint.id, endpointText(endpoint), max);
    if (outcome === "taken") throw new ServiceError("conflict", "An endpoint with this id exists.");
    return outcome === "done";
  }

  async replace(endpoint: EndpointRecord): Promise<"replaced" | "changed" | "unknown"> {
    const outcome = await this.#write("replace", endpoint.account, endpoint.id, endpointText(endpoint), 0);
    if (outcome === "done") return "replaced";
    invariant(outcome === "changed" || outcome === "unknown", "a replacement is refused for one of two reasons");
    return outcome;
  }

  async find(account: string, id: string): Promise<KeptEndpoint | null> {
    const { endpoints, endpointHealth } = this.#space.shardOf(account);
    const [text, health] = await this.#both(
      () => this.#client.command<string | null>("hget", [endpoints(account), id]),
      () => this.#client.command<string | null>("hget", [endpointHealth(account), id]),
    );
    return text === null ? null : { record: parseEndpoint(text), health: parseHealth(health) };
  }

  async list(account: string): Promise<readonly KeptEndpoint[]> {
    const { endpoints, endpointHealth } = this.#space.shardOf(account);
    const [texts, healths] = await this.#both(
      () => this.#client.command<string[]>("hvals", [endpoints(account)]),
      () => this.#client.command<Record<string, string>>("hgetall", [endpointHealth(account)]),
    );
    const records = texts.map(parseEndpoint).sort(byOldest);
    return records.map((record) => ({ record, health: parseHealth(healths[record.id] ?? null) }));
  }

  async remove(account: string, id: string): Promise<boolean> {
    return (await this.#write("remove", account, id, "", 0)) === "done";
  }

  /** Another replica may have added one just now, so this is never known for certain. */
  mayHaveAny(): boolean {
    return true;
  }

  #write(verb: string, account: string, id: string, text: string, max: number): Promise<Outcome> {
    return this.#feed.telling(
      [{ kind: "endpoint", id }],
      async ([message = ""]) => {
        const args = [verb, account, id, text, max, this.#feed.channel, message];
        const shard = this.#space.shardOf(account).index;
        const [outcome] = await this.#shards.runMaking(deliveryScripts.writeEndpoint, shard, args);
        return outcome as Outcome;
      },
      (outcome) => outcome === "done",
    );
  }

  /** Two reads in one write. */
  #both<A, B>(first: () => Promise<A>, second: () => Promise<B>): Promise<[A, B]> {
    let both: Promise<[A, B]> | undefined;
    this.#client.together(() => {
      both = Promise.all([first(), second()]);
    });
    invariant(both !== undefined, "what is sent together is sent at once");
    return both;
  }
}

/** Kept: `<status>|<event,event>|<most in flight>|<version>|<JSON>`, as scripts read it. */
function endpointText(endpoint: EndpointRecord): string {
  const { status, events, maxInFlight, version } = endpoint;
  return `${status}|${events.join(",")}|${maxInFlight}|${version}|${JSON.stringify({ v: form, ...endpoint })}`;
}

function parseEndpoint(text: string): EndpointRecord {
  const { v: _form, ...endpoint } = JSON.parse(text.slice(text.indexOf("{"))) as { v: number } & EndpointRecord;
  return endpoint;
}

function byOldest(a: EndpointRecord, b: EndpointRecord): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
