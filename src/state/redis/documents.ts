import { ServiceError } from "../../domain/call/service-error.js";
import type { OwnChange, RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, lookUpTimeoutMs, type RedisClient, unavailable } from "./connection/client.js";
import { keyPrefix } from "./connection/key-space.js";

/** Condition of a write: `same` is the text that the caller has read. */
type Condition = "absent" | "present" | "any" | { readonly same: string };

/** The index of the documents' secrets, and the digest of one. */
interface SecretIndex {
  readonly index: string;
  readonly digest: string;
}

interface DocumentsOptions {
  /** Key of the hash that contains the documents; see `documentKeys`. */
  readonly key: string;
  readonly max: number;
  /** The change to publish after a write. */
  change(id: string): OwnChange;
}

const putDocument = loadScript("put-document");
const findDocument = loadScript("find-document");

/**
 * Maximum number of attempts at a change. An attempt fails if another process changes the document between the read and the
 * write.
 */
export const changeAttempts = 10;
const formatVersion = 1;

/** Documents of one kind: texts by id in one hash. A write checks its condition in the same step and notifies all replicas. */
export function createDocuments(client: RedisClient, feed: RedisChangeFeed, { key, max, change }: DocumentsOptions) {
  const get = (id: string): Promise<string | null> => client.command("hget", [key, id]);

  const write = async (
    id: string,
    text: string,
    condition: Condition,
    published: OwnChange | null,
    secret: SecretIndex | null = null,
  ): Promise<boolean> => {
    const keys = secret === null ? [key] : [key, secret.index];
    const [name, same] = typeof condition === "string" ? [condition, ""] : ["same", condition.same];
    const outcome = await feed.publishing(
      published === null ? [] : [published],
      ([message = ""]) =>
        client.run(putDocument, keys, [id, name, same, text, max, feed.channel, message, secret?.digest ?? ""]),
      (what) => what === "done",
    );
    if (outcome === "full") throw unavailable(`it holds the maximum of ${max} of these already`);
    return outcome === "done";
  };

  return {
    get,
    /** All documents, in no particular order. */
    list: (): Promise<readonly string[]> => client.command("hvals", [key]),
    /** False: the condition is not met. Rejects with `storage_unavailable` when `max` documents exist. */
    put: (id: string, text: string, condition: Condition): Promise<boolean> => write(id, text, condition, change(id)),
    /** Inserts a document and its entry in the index. False: the id or the secret exists. */
    insert: (id: string, text: string, secret: SecretIndex): Promise<boolean> =>
      write(id, text, "absent", change(id), secret),
    /** Removes a document; false if it does not exist. */
    remove: (id: string): Promise<boolean> => write(id, "", "any", change(id)),
    /**
     * Replaces a document by the result of `next`, atomically, even if it takes several attempts. Returns the stored text,
     * or null when there is no document. `next` returns the same text if nothing is to change.
     */
    async change(id: string, next: (text: string) => string, published: OwnChange | null = change(id)) {
      for (let attempt = 0; attempt < changeAttempts; attempt += 1) {
        const text = await get(id);
        if (text === null) return null;
        const changed = next(text);
        if (changed === text || (await write(id, changed, { same: text }, published))) return changed;
      }
      throw new ServiceError("conflict", "The object is being changed by others. Try again.");
    },
  };
}

/**
 * Finds a document by the digest of its secret. The caller waits for the store, because it cannot be authenticated
 * otherwise (REL-15).
 */
export async function findByDigest(client: RedisClient, index: string, key: string, digest: string) {
  const text = await client.run(findDocument, [index, key], [digest], lookUpTimeoutMs);
  return typeof text === "string" ? text : null;
}

export function toDocument(record: object): string {
  return JSON.stringify({ v: formatVersion, ...record });
}

export function fromDocument<T>(text: string): T {
  const { v: _version, ...record } = JSON.parse(text);
  return record as T;
}

/**
 * Keys of the documents, all on one slot of a cluster, so that one step can touch several. The names are a stored format.
 *
 * ```text
 * uis:{k}:keys               hash  key id -> JSON
 * uis:{k}:key_hashes         hash  SHA-256 of the secret -> key id
 * uis:{k}:keys_by_age        zset  positions of keys, all with score 0: creation in ms as 16 digits, a colon, key id
 * uis:{k}:keys_of:<account>  zset  positions of the keys of one account, in the form of `keys_by_age`
 * uis:{k}:key_accounts       set   accounts that have keys
 * uis:{k}:sessions           hash  session id -> JSON
 * uis:{k}:session_hashes     hash  SHA-256 of the token -> session id
 * uis:{k}:settings           hash  name -> JSON
 * uis:{k}:limits             hash  <kind>:<id> -> JSON
 * uis:{k}:thresholds         hash  threshold id -> JSON
 * uis:{k}:upstreams          hash  name of an upstream -> JSON
 * uis:{k}:drains             hash  deployment id -> JSON
 * uis:{k}:models             hash  model id -> first seen in ms
 * uis:{k}:audit              zset  audit records, all with score 0: instant in ms as 16 digits, a colon, id, a space, JSON
 * uis:{k}:request_logs       hash  request id -> JSON of its record in the request log
 * uis:{k}:request_contents   hash  request id -> JSON of its content, where it is kept
 * uis:{k}:request_log_times  zset  members for records, all with score 0: arrival in ms as 16 digits, a colon, request id, a
 *                                  space, JSON list of account, key id, model and code
 * uis:{k}:request_log_order  zset  members of `request_log_times` -> number, rising by 1 per record
 * uis:{k}:request_log_count  number of the last record
 * uis:{k}:replicas           zset  name of a running process -> its last report, in ms
 * uis:{k}:copy               hash  copied state: `source`, the id of the store; `state`, `copying`, `complete`, or `in_use`
 *                                  once a service has used it
 * ```
 *
 * Endpoints are with their account (see `key-space`). JSON documents have a field `v`, the version of their format.
 */
const stem = `${keyPrefix}{k}:`;

export const documentKeys = {
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
  upstreams: `${stem}upstreams`,
  drains: `${stem}drains`,
  models: `${stem}models`,
  audit: `${stem}audit`,
  requestLogs: `${stem}request_logs`,
  requestContents: `${stem}request_contents`,
  requestLogTimes: `${stem}request_log_times`,
  requestLogOrder: `${stem}request_log_order`,
  requestLogCount: `${stem}request_log_count`,
  replicas: `${stem}replicas`,
  copy: `${stem}copy`,
};

/** Sorts as text like the times and ids that it consists of. */
export function positionOf(atMs: number, id: string): string {
  return `${String(atMs).padStart(16, "0")}:${id}`;
}

/** Oldest first. */
export function byCreation(a: { createdAtMs: number; id: string }, b: { createdAtMs: number; id: string }): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
