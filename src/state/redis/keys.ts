import {
  type ApiKeyRecord,
  cursorOf,
  examinedCount,
  foldCase,
  type KeyState,
  type KeyStore,
  type KeyUse,
  pageOfStep,
  parseCursor,
  storedPriority,
} from "../../domain/access/key-store.js";
import { unlimited } from "../../domain/call/rate-limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient, unavailable } from "./connection/client.js";
import {
  changeAttempts,
  createDocuments,
  documentKeys,
  findByDigest,
  fromDocument,
  positionOf,
  toDocument,
} from "./documents.js";

const insertKey = loadScript("insert-key");
const listKeys = loadScript("list-keys");

const keysMax = 1_000_000;
/** Maximum number of keys whose time of last use is updated in parallel. Each update is a read and a write. */
const touchesAtOnce = 64;

/** The key that a new key replaces: its document as it was read, and its new document. */
interface Predecessor {
  readonly id: string;
  readonly text: string;
  readonly changedText: string;
}

export function createRedisKeyStore(client: RedisClient, feed: RedisChangeFeed): KeyStore {
  const { keys, keyHashes, keysByAge, keysOf, keyAccounts } = documentKeys;
  const changeOf = (id: string) => ({ kind: "key", id }) as const;
  const documents = createDocuments(client, feed, { key: keys, max: keysMax, change: changeOf });

  const change = async (id: string, next: (record: ApiKeyRecord) => ApiKeyRecord): Promise<ApiKeyRecord | null> => {
    const text = await documents.change(id, (kept) => keyText(next(parseKey(kept))));
    return text === null ? null : parseKey(text);
  };

  /** Returns false if the mode is `first` and a key exists, or if the predecessor has changed since it was read. */
  const insert = async (record: ApiKeyRecord, mode: "" | "first", predecessor?: Predecessor): Promise<boolean> => {
    const { id, hash, account, createdAtMs } = record;
    const values = [id, hash, keyText(record), positionOf(createdAtMs, id), account, mode, keysMax, feed.channel];
    const former = [predecessor?.id ?? "", predecessor?.text ?? "", predecessor?.changedText ?? ""];
    const outcome = await feed.publishing(
      predecessor === undefined ? [changeOf(id)] : [changeOf(id), changeOf(predecessor.id)],
      ([message = "", messageOfFormer = ""]) =>
        client.run(
          insertKey,
          [keys, keyHashes, keysByAge, keysOf(account), keyAccounts],
          [...values, message, ...former, messageOfFormer],
        ),
      (what) => what === "done",
    );
    if (outcome === "taken") throw new ServiceError("conflict", "An object with this id or secret exists.");
    if (outcome === "full") throw unavailable(`it holds the maximum of ${keysMax} API keys already`);
    return outcome === "done";
  };

  return {
    async findByHash(hash) {
      const text = await findByDigest(client, keyHashes, keys, hash);
      return text === null ? null : parseKey(text);
    },
    async find(id) {
      const text = await documents.get(id);
      return text === null ? null : parseKey(text);
    },
    async insert(record) {
      await insert(record, "");
    },
    insertFirst: (record) => insert(record, "first"),
    async list(step) {
      const { account, search, state } = step.filter;
      const cursor = step.after === null ? null : parseCursor(step.after);
      const begin = cursor === null ? "+" : `(${positionOf(cursor.createdAtMs, cursor.id)}`;
      const positions = account === null ? keysByAge : keysOf(account);
      const sign = state === null ? { text: "", is: "there" } : signOf(state);
      const filter = [search === null ? "" : textInside(search), sign.text, sign.is];
      const answer = await client.run(listKeys, [positions, keys], [begin, examinedCount(step), ...filter]);
      const [last = "", ...texts] = answer as string[];
      const colon = last.indexOf(":");
      const lastPosition = { createdAtMs: Number(last.slice(0, colon)), id: last.slice(colon + 1) };
      return pageOfStep(step, texts.map(parseKey), last === "" ? null : cursorOf(lastPosition));
    },
    revoke: (id, atMs) => change(id, (record) => ({ ...record, revokedAtMs: record.revokedAtMs ?? atMs })),
    update: (id, wanted) => change(id, (record) => ({ ...record, ...wanted })),
    async rotate(id, successor, oldExpiresAtMs) {
      for (let attempt = 0; attempt < changeAttempts; attempt += 1) {
        const text = await documents.get(id);
        const old = text === null ? null : parseKey(text);
        if (text === null || old === null || old.revokedAtMs !== null) return false;
        const expiresAtMs = Math.min(old.expiresAtMs ?? oldExpiresAtMs, oldExpiresAtMs);
        // False: the old key was changed in between, so it is read again.
        if (await insert(successor, "", { id, text, changedText: keyText({ ...old, expiresAtMs }) })) return true;
      }
      throw new ServiceError("conflict", "The API key is being changed by others. Try again.");
    },
    async touch(uses) {
      const touched = (key: ApiKeyRecord, atMs: number) => ({
        ...key,
        lastUsedAtMs: Math.max(key.lastUsedAtMs ?? 0, atMs),
      });
      for (let from = 0; from < uses.length; from += touchesAtOnce) {
        const some = uses.slice(from, from + touchesAtOnce);
        const change = ({ id, atMs }: KeyUse) =>
          documents.change(id, (text) => keyText(touched(parseKey(text), atMs)), null);
        await Promise.all(some.map(change));
      }
    },
  };
}

/** JSON of a key. The searchable fields precede `scope`, because `list-keys.lua` searches only there. */
export function keyText(record: ApiKeyRecord): string {
  const { id, name, account, prefix, last4, scope, ...others } = record;
  return toDocument({ id, name, account, prefix, last4, scope, ...others });
}

function parseKey(text: string): ApiKeyRecord {
  const { priority, ...key } = fromDocument<ApiKeyRecord>(text);
  // An unknown scope, as in a damaged document, counts as the narrower one.
  return {
    ...key,
    scope: key.scope === "read_write" ? "read_write" : "read",
    limits: { ...unlimited, ...key.limits },
    ...storedPriority(priority),
  };
}

/** A search text as it appears in a document, case folded: if it does not appear there, no field contains it. */
function textInside(search: string): string {
  return foldCase(JSON.stringify(search).slice(1, -1));
}

/**
 * A text that every document of a key in this state contains (`there`), or that none contains (`absent`). A user's text
 * cannot contain it, because JSON escapes its quotation marks with a backslash.
 */
function signOf(state: KeyState): { readonly text: string; readonly is: "there" | "absent" } {
  if (state === "active") return { text: '"revokedAtMs":null', is: "there" };
  return { text: state === "revoked" ? '"revokedAtMs":null' : '"expiresAtMs":null', is: "absent" };
}
