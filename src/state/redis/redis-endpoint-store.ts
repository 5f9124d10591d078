import { ServiceError } from "../../domain/service-error.js";
import type { EndpointRecord, EndpointStore } from "../../domain/webhooks/endpoint-store.js";
import type { RedisChangeFeed } from "./changes.js";
import { Documents } from "./documents.js";
import { createKeySpace, type KeySpace } from "./key-space.js";
import type { RedisClient } from "./redis-client.js";

const form = 1;
/** Of one account. Whoever registers endpoints allows far fewer. */
const endpointsMax = 1_000;

/** Endpoints lie with the ledger of their account, whose settlements read the status and the events of each. */
export class RedisEndpointStore implements EndpointStore {
  readonly #client: RedisClient;
  readonly #feed: RedisChangeFeed;
  readonly #space: KeySpace;

  constructor(client: RedisClient, feed: RedisChangeFeed) {
    this.#client = client;
    this.#feed = feed;
    this.#space = createKeySpace(client.prefix);
  }

  async insert(endpoint: EndpointRecord): Promise<void> {
    const isNew = await this.#of(endpoint.account).put(endpoint.id, endpointText(endpoint), "absent");
    if (!isNew) throw new ServiceError("conflict", "An endpoint with this id exists.");
  }

  replace(endpoint: EndpointRecord): Promise<boolean> {
    return this.#of(endpoint.account).put(endpoint.id, endpointText(endpoint), "present");
  }

  async list(account: string): Promise<readonly EndpointRecord[]> {
    return (await this.#of(account).list()).map(parseEndpoint).sort(byOldest);
  }

  remove(account: string, id: string): Promise<boolean> {
    return this.#of(account).remove(id);
  }

  /** Another replica may have added one just now, so this is never known for certain. */
  mayHaveAny(): boolean {
    return true;
  }

  #of(account: string): Documents {
    return new Documents(this.#client, this.#feed, {
      key: this.#space.shardOf(account).endpoints(account),
      max: endpointsMax,
      change: (id) => ({ kind: "endpoint", id }),
    });
  }
}

/** Kept: `<status>|<event,event>|<JSON>`, as the settlement reads it. */
function endpointText(endpoint: EndpointRecord): string {
  return `${endpoint.status}|${endpoint.events.join(",")}|${JSON.stringify({ v: form, ...endpoint })}`;
}

function parseEndpoint(text: string): EndpointRecord {
  const json = text.slice(text.indexOf("|", text.indexOf("|") + 1) + 1);
  const { v: _form, ...endpoint } = JSON.parse(json) as { v: number } & EndpointRecord;
  return endpoint;
}

function byOldest(a: EndpointRecord, b: EndpointRecord): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
