import { ServiceError } from "../../domain/call/service-error.js";
import type { OwnChange, RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient, unavailable } from "./connection/client.js";

/** What must hold for a write: `same` is the text that the caller has read. */
export type Condition = "absent" | "present" | "any" | { readonly same: string };

export interface DocumentsOptions {
  /** Of the hash that holds them; spelled once, in `document-keys`. */
  readonly key: string;
  readonly max: number;
  /** What is told of a write; null: nobody remembers these documents. */
  change(id: string): OwnChange | null;
}

const putDocument = loadScript("put-document");

/** Tries of a change that was overtaken between reading and writing. */
const changeAttempts = 10;

/**
 * Documents of one kind: texts by id in one hash. Every write is one step that also checks what must hold, and is told
 * to all replicas.
 */
export class Documents {
  readonly #client: RedisClient;
  readonly #feed: RedisChangeFeed;
  readonly #options: DocumentsOptions;

  constructor(client: RedisClient, feed: RedisChangeFeed, options: DocumentsOptions) {
    this.#client = client;
    this.#feed = feed;
    this.#options = options;
  }

  get(id: string): Promise<string | null> {
    return this.#client.command<string | null>("hget", [this.#options.key, id]);
  }

  /** All, in no order. */
  list(): Promise<readonly string[]> {
    return this.#client.command<string[]>("hvals", [this.#options.key]);
  }

  /** False: the condition does not hold. Rejects with `storage_unavailable` when there is no room. */
  put(id: string, text: string, condition: Condition): Promise<boolean> {
    return this.#write(id, text, condition, this.#options.change(id));
  }

  /** False: there is none. */
  remove(id: string): Promise<boolean> {
    return this.#write(id, "", "any", this.#options.change(id));
  }

  /**
   * Changes one document by what `next` makes of it, in one atomic step however often that is tried; the text that is
   * kept now, or null when there is none. `next` returns the same text for no change.
   */
  async change(id: string, next: (text: string) => string, told = this.#options.change(id)): Promise<string | null> {
    for (let attempt = 0; attempt < changeAttempts; attempt += 1) {
      const text = await this.get(id);
      if (text === null) return null;
      const changed = next(text);
      if (changed === text || (await this.#write(id, changed, { same: text }, told))) return changed;
    }
    throw new ServiceError("conflict", "The object is being changed by others. Try again.");
  }

  async #write(id: string, text: string, condition: Condition, told: OwnChange | null): Promise<boolean> {
    const { key, max } = this.#options;
    const [name, same] = typeof condition === "string" ? [condition, ""] : ["same", condition.same];
    const outcome = await this.#feed.telling(
      told === null ? [] : [told],
      ([message = ""]) =>
        this.#client.run(putDocument, [key], [id, name, same, text, max, this.#feed.channel, message]),
      (what) => what === "done",
    );
    if (outcome === "full") throw unavailable(`it holds ${max} of these already, which is the most`);
    return outcome === "done";
  }
}

/**
 * Where documents lie: all on one slot of a cluster, so that one step can touch several. The spellings are kept data.
 *
 * ```text
 * uis:{k}:keys               hash  key id -> JSON
 * uis:{k}:key_hashes         hash  SHA-256 of the secret -> key id
 * uis:{k}:keys_by_age        zset  places of keys, all with score 0: creation in ms as 16 digits, a colon, key id
 * uis:{k}:keys_of:<account>  zset  the same, of one account
 * uis:{k}:key_accounts       set   accounts that have keys
 * uis:{k}:sessions           hash  session id -> JSON
 * uis:{k}:session_hashes     hash  SHA-256 of the token -> session id
 * uis:{k}:settings           hash  name -> JSON
 * uis:{k}:limits             hash  <kind>:<id> -> JSON
 * uis:{k}:thresholds         hash  threshold id -> JSON
 * uis:{k}:models             hash  model id -> first seen in ms
 * uis:{k}:audit              zset  audit records, all with score 0: instant in ms as 16 digits, a colon, id, a space, JSON
 * uis:{k}:replicas           zset  name of a running process -> when it was last heard of, in ms
 * ```
 *
 * Endpoints lie with their account (see `key-space`). JSON documents carry `v`, the number of their form.
 */
export function documentKeys(prefix: string) {
  const stem = `${prefix}{k}:`;
  return {
    keys: `${stem}keys`,
    keyHashes: `${stem}key_hashes`,
    keysByAge: `${stem}keys_by_age`,
    keysOf: (account: string) => `${stem}keys_of:${account}`,
    keyAccounts: `${stem}key_accounts`,
    sessions: `${stem}sessions`,
    sessionHashes: `${stem}session_hashes`,
    settings: `${stem}settings`,
    limits: `${stem}limits`,
    thresholds: `${stem}thresholds`,
    models: `${stem}models`,
    audit: `${stem}audit`,
    replicas: `${stem}replicas`,
  };
}

export type DocumentKeys = ReturnType<typeof documentKeys>;

/** Sorts as text like the instants and ids that it is made of. */
export function placeOf(atMs: number, id: string): string {
  return `${String(atMs).padStart(16, "0")}:${id}`;
}

/** What `placeOf` was made of. */
export function parsePlace(place: string): { readonly createdAtMs: number; readonly id: string } {
  const colon = place.indexOf(":");
  return { createdAtMs: Number(place.slice(0, colon)), id: place.slice(colon + 1) };
}
