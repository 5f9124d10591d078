import type { Clock, IdSource } from "../ports.js";
import { ServiceError } from "../service-error.js";
import {
  hashApiKey,
  isMistypedApiKey,
  isPresentable,
  last4Of,
  newApiKeySecret,
  prefixOf,
  type RandomBytes,
} from "./api-key-format.js";
import { parseCursor } from "./key-order.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";
import { type CheckedNewKey, checkNewKey, defaultAccount, type NewKey } from "./new-key.js";

export interface ApiKeysDeps {
  readonly keys: KeyStore;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly random: RandomBytes;
  /** Told after the store has it: caches must forget the key, its running requests must end. */
  readonly onRevoked: (keyId: string) => void;
}

/** A key and its secret: this is the only place where the secret can be had. */
export interface CreatedKey {
  readonly record: ApiKeyRecord;
  readonly secret: string;
}

export interface KeyListRequest {
  /** Null or empty: all accounts. */
  readonly account: string | null;
  /** 0 to 1,000; 0 is 100. */
  readonly pageSize: number;
  /** `nextPageToken` of the page before; empty for the first. */
  readonly pageToken: string;
}

export interface KeyList {
  readonly records: readonly ApiKeyRecord[];
  /** Empty when this is the last page. */
  readonly nextPageToken: string;
}

const pageSizeDefault = 100;
const pageSizeMax = 1_000;

const openToAll: CheckedNewKey = {
  name: "default",
  scope: "read_write",
  account: defaultAccount,
  models: [],
  expiresAtMs: null,
};

/** Makes, lists and revokes API keys, for the administrator and for the first start. */
export class ApiKeys {
  readonly #deps: ApiKeysDeps;

  constructor(deps: ApiKeysDeps) {
    this.#deps = deps;
  }

  /** Rejects with a ServiceError that names the field at fault, or with `storage_unavailable`. */
  async create(input: NewKey): Promise<CreatedKey> {
    const checked = checkNewKey(input, this.#deps.clock.now());
    const secret = newApiKeySecret(this.#deps.random);
    const record = this.#recordOf(secret, checked, "administrator");
    await this.#deps.keys.insert(record);
    return { record, secret };
  }

  /** Newest first, revoked keys included. */
  async list({ account, pageSize, pageToken }: KeyListRequest): Promise<KeyList> {
    const page = await this.#deps.keys.list({
      account: account || null,
      limit: checkPageSize(pageSize),
      after: pageToken === "" ? null : cursorOfToken(pageToken),
    });
    return { records: page.records, nextPageToken: page.next === null ? "" : tokenOfCursor(page.next) };
  }

  /** Revoking again changes nothing. Rejects with `not_found` for an id that never was. */
  async revoke(id: string): Promise<ApiKeyRecord> {
    const record = await this.#deps.keys.revoke(id, this.#deps.clock.now());
    if (record === null) throw new ServiceError("not_found", "There is no API key with this id.", { param: "id" });
    this.#deps.onRevoked(id);
    return record;
  }

  /** Makes the key `default` in a store that has none; null when there is one, or when another replica was first. */
  async ensureFirst(): Promise<CreatedKey | null> {
    const secret = newApiKeySecret(this.#deps.random);
    const record = this.#recordOf(secret, openToAll, "first_start");
    return (await this.#deps.keys.insertFirst(record)) ? { record, secret } : null;
  }

  /** Registers the operator's own key. At every start the same: a key that was revoked stays revoked. */
  async registerBootstrap(secret: string): Promise<ApiKeyRecord> {
    checkBootstrap(secret);
    const known = await this.#deps.keys.findByHash(hashApiKey(secret));
    if (known !== null) return known;
    const record = this.#recordOf(secret, { ...openToAll, name: "bootstrap" }, "bootstrap");
    try {
      await this.#deps.keys.insert(record);
      return record;
    } catch (error) {
      const other = error instanceof ServiceError && error.code === "conflict";
      const winner = other ? await this.#deps.keys.findByHash(record.hash) : null;
      if (winner === null) throw error;
      return winner;
    }
  }

  #recordOf(secret: string, key: CheckedNewKey, createdBy: string): ApiKeyRecord {
    return {
      id: this.#deps.ids.text("key_"),
      name: key.name,
      account: key.account,
      scope: key.scope,
      hash: hashApiKey(secret),
      prefix: prefixOf(secret),
      last4: last4Of(secret),
      models: key.models,
      createdAtMs: this.#deps.clock.now(),
      createdBy,
      expiresAtMs: key.expiresAtMs,
      revokedAtMs: null,
      lastUsedAtMs: null,
    };
  }
}

function checkBootstrap(secret: string): void {
  if (!isPresentable(secret)) {
    throw new ServiceError("invalid_value", "A key of your own must be 8 to 256 printable characters without spaces.");
  }
  // Such a key could never be used: a wrong checksum is refused before the store is asked.
  if (isMistypedApiKey(secret)) {
    throw new ServiceError("invalid_value", "The key has the form of a generated key but a wrong checksum.");
  }
}

function checkPageSize(pageSize: number): number {
  if (pageSize < 0) {
    throw new ServiceError("integer_below_min_value", `'page_size' must be 0 or more, not ${pageSize}.`, {
      param: "page_size",
    });
  }
  if (pageSize > pageSizeMax) {
    throw new ServiceError("integer_above_max_value", `'page_size' must be ${pageSizeMax} or less, not ${pageSize}.`, {
      param: "page_size",
    });
  }
  return pageSize === 0 ? pageSizeDefault : pageSize;
}

function tokenOfCursor(cursor: string): string {
  return Buffer.from(cursor).toString("base64url");
}

function cursorOfToken(token: string): string {
  const cursor = Buffer.from(token, "base64url").toString();
  if (parseCursor(cursor) !== null) return cursor;
  throw new ServiceError("invalid_value", "'page_token' is not the next_page_token of an earlier page.", {
    param: "page_token",
  });
}
