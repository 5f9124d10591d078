import {
  type ApiKeyPage,
  type ApiKeyRecord,
  cursorOf,
  foldCase,
  type KeyChange,
  type KeyState,
  type KeyStep,
  type KeyStore,
  looksOf,
  pageOfStep,
  parseCursor,
} from "../../domain/access/key-store.js";
import { unlimited } from "../../domain/call/rate-limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient, unavailable } from "./connection/client.js";
import { type DocumentKeys, Documents, documentKeys, parsePlace, placeOf } from "./documents.js";

const findDocument = loadScript("find-document");
const insertKey = loadScript("insert-key");
const listKeys = loadScript("list-keys");

const keysMax = 1_000_000;
/** Tries of a rotation that was overtaken by another change of the key. */
const rotateAttempts = 10;

/** The key that a new one takes the place of, as it was read and as it is from then on. */
interface Predecessor {
  readonly id: string;
  readonly text: string;
  readonly changedText: string;
}

export class RedisKeyStore implements KeyStore {
  readonly #client: RedisClient;
  readonly #feed: RedisChangeFeed;
  readonly #keys: DocumentKeys;
  readonly #documents: Documents;

  constructor(client: RedisClient, feed: RedisChangeFeed) {
    this.#client = client;
    this.#feed = feed;
    this.#keys = documentKeys(client.prefix);
    const change = (id: string) => ({ kind: "key", id }) as const;
    this.#documents = new Documents(client, feed, { key: this.#keys.keys, max: keysMax, change });
  }

  async findByHash(hash: string): Promise<ApiKeyRecord | null> {
    const text = await this.#client.run(findDocument, [this.#keys.keyHashes, this.#keys.keys], [hash]);
    return typeof text === "string" ? parseKey(text) : null;
  }

  async find(id: string): Promise<ApiKeyRecord | null> {
    const text = await this.#documents.get(id);
    return text === null ? null : parseKey(text);
  }

  async insert(record: ApiKeyRecord): Promise<void> {
    await this.#insert(record, "");
  }

  insertFirst(record: ApiKeyRecord): Promise<boolean> {
    return this.#insert(record, "first");
  }

  async list(step: KeyStep): Promise<ApiKeyPage> {
    const { account, search, state } = step.filter;
    const place = step.after === null ? null : parseCursor(step.after);
    const begin = place === null ? "+" : `(${placeOf(place.createdAtMs, place.id)}`;
    const places = account === null ? this.#keys.keysByAge : this.#keys.keysOf(account);
    const sign = state === null ? { text: "", is: "there" } : signOf(state);
    const sieve = [search === null ? "" : textInside(search), sign.text, sign.is];
    const answer = await this.#client.run(listKeys, [places, this.#keys.keys], [begin, looksOf(step), ...sieve]);
    const [last = "", ...texts] = answer as string[];
    return pageOfStep(step, texts.map(parseKey), last === "" ? null : cursorOf(parsePlace(last)));
  }

  revoke(id: string, atMs: number): Promise<ApiKeyRecord | null> {
    return this.#change(id, (record) => ({ ...record, revokedAtMs: record.revokedAtMs ?? atMs }));
  }

  update(id: string, change: KeyChange): Promise<ApiKeyRecord | null> {
    return this.#change(id, (record) => ({ ...record, ...change }));
  }

  async rotate(id: string, successor: ApiKeyRecord, oldExpiresAtMs: number): Promise<boolean> {
    for (let attempt = 0; attempt < rotateAttempts; attempt += 1) {
      const text = await this.#documents.get(id);
      const old = text === null ? null : parseKey(text);
      if (text === null || old === null || old.revokedAtMs !== null) return false;
      const expiresAtMs = Math.min(old.expiresAtMs ?? oldExpiresAtMs, oldExpiresAtMs);
      const changedText = keyText({ ...old, expiresAtMs });
      // Refused means that somebody changed the old key in between: look again.
      if (await this.#insert(successor, "", { id, text, changedText })) return true;
    }
    throw new ServiceError("conflict", "The API key is being changed by others. Try again.");
  }

  async touch(id: string, atMs: number): Promise<void> {
    const later = (record: ApiKeyRecord) => ({ ...record, lastUsedAtMs: Math.max(record.lastUsedAtMs ?? 0, atMs) });
    await this.#documents.change(id, (text) => keyText(later(parseKey(text))), null);
  }

  /** Accounts that have or had keys. */
  accounts(): Promise<readonly string[]> {
    return this.#client.command<string[]>("smembers", [this.#keys.keyAccounts]);
  }

  async #change(id: string, next: (record: ApiKeyRecord) => ApiKeyRecord): Promise<ApiKeyRecord | null> {
    const text = await this.#documents.change(id, (kept) => keyText(next(parseKey(kept))));
    return text === null ? null : parseKey(text);
  }

  /** False: there is a key already (`first`), or the predecessor is not as it was read. */
  async #insert(record: ApiKeyRecord, mode: "" | "first", predecessor: Predecessor | null = null): Promise<boolean> {
    const { keys, keyHashes, keysByAge, keysOf, keyAccounts } = this.#keys;
    const ids = predecessor === null ? [record.id] : [record.id, predecessor.id];
    const outcome = await this.#feed.telling(
      ids.map((id) => ({ kind: "key", id }) as const),
      ([message = "", messageOfOld = ""]) =>
        this.#client.run(
          insertKey,
          [keys, keyHashes, keysByAge, keysOf(record.account), keyAccounts],
          [
            record.id,
            record.hash,
            keyText(record),
            placeOf(record.createdAtMs, record.id),
            record.account,
            mode,
            keysMax,
            this.#feed.channel,
            message,
            predecessor?.id ?? "",
            predecessor?.text ?? "",
            predecessor?.changedText ?? "",
            messageOfOld,
          ],
        ),
      (what) => what === "done",
    );
    if (outcome === "taken") throw new ServiceError("conflict", "An object with this id or secret exists.");
    if (outcome === "full") throw unavailable(`it holds ${keysMax} API keys already, which is the most`);
    return outcome === "done";
  }
}

const form = 1;

/** What can be searched stands before `scope`, where the step through a list looks for it. */
export function keyText(record: ApiKeyRecord): string {
  const { id, name, account, prefix, last4, scope, ...others } = record;
  return JSON.stringify({ v: form, id, name, account, prefix, last4, scope, ...others });
}

export function parseKey(text: string): ApiKeyRecord {
  const { v: _form, ...kept } = JSON.parse(text) as { v: number } & ApiKeyRecord;
  return {
    ...kept,
    // Anything else than the wider scope, a damaged document included, is the narrower one.
    scope: kept.scope === "read_write" ? "read_write" : "read",
    limits: { ...unlimited, ...kept.limits },
  };
}

/** A text as it stands inside of a document, case folded: one that is not there is in no field either. */
export function textInside(search: string): string {
  return foldCase(JSON.stringify(search).slice(1, -1));
}

/**
 * A text that every document of a key in this state has, or that none has. No text that somebody chose can look like it:
 * quotation marks of theirs stand behind a backslash.
 */
export function signOf(state: KeyState): { readonly text: string; readonly is: "there" | "absent" } {
  if (state === "active") return { text: '"revokedAtMs":null', is: "there" };
  return { text: state === "revoked" ? '"revokedAtMs":null' : '"expiresAtMs":null', is: "absent" };
}
