import { BoundedMap } from "../../lib/collections.js";
import type { ChangeFeed, Clock, IdSource, Logger } from "../call/ports.js";
import { unlimited } from "../call/rate-limits.js";
import { type PageRequest, refuse, ServiceError, toPageToken, toStorePage } from "../call/service-error.js";
import {
  type CheckedNewKey,
  checkExpiry,
  checkKeyChange,
  checkNewKey,
  checkOverlap,
  defaultAccount,
  hashApiKey,
  isMistypedApiKey,
  isPresentable,
  type NewKey,
  newApiKeySecret,
  type RandomBytes,
  shownEndsOf,
} from "./api-key.js";
import {
  type ApiKeyRecord,
  checkSearch,
  type KeyChange,
  type KeyFilter,
  type KeyState,
  type KeyStore,
  parseCursor,
  storedPriority,
} from "./key-store.js";

export interface ApiKeysDeps {
  readonly keys: KeyStore;
  /** Store time. */
  readonly now: () => number;
  readonly ids: IdSource;
  readonly random: RandomBytes;
  /** Called after each revocation that the store has acknowledged. */
  readonly onRevoked?: (record: ApiKeyRecord) => void;
}

/** A key with its secret, which is available only here. */
export interface CreatedKey {
  readonly record: ApiKeyRecord;
  readonly secret: string;
}

/** The successor of a rotated key. */
export interface RotatedKey extends CreatedKey {
  /** When the old key expires. */
  readonly oldExpiresAtMs: number;
}

export interface RotateKey {
  readonly id: string;
  /** Overlap during which the old key works, 0 to 7 days; null: 24 h. */
  readonly overlapMs: number | null;
  /** Expiry of the new key; null: never. */
  readonly expiresAtMs: number | null;
}

export interface KeyListRequest extends PageRequest {
  /** Null or empty: all accounts. */
  readonly account: string | null;
  /** Matches name, account, id and the shown ends of the secret; at most 128 characters. Empty: all keys. */
  readonly search?: string;
  /** Null: any. */
  readonly state?: KeyState | null;
}

/** Maximum reads of the store per page: they examine 20,000 keys, which takes well under a tenth of a second. */
const stepsPerPage = 20;

const openToAll: CheckedNewKey = {
  name: "default",
  scope: "read_write",
  account: defaultAccount,
  models: [],
  limits: unlimited,
  expiresAtMs: null,
};

/**
 * Creates, changes and revokes API keys, for the administrator and for the first start. The change feed applies each change
 * to the caches and running requests of all replicas.
 */
export class ApiKeys {
  readonly #deps: ApiKeysDeps;

  constructor(deps: ApiKeysDeps) {
    this.#deps = deps;
  }

  /** Rejects with a ServiceError that names the field at fault, or with `storage_unavailable`. */
  async create(input: NewKey): Promise<CreatedKey> {
    const checked = checkNewKey(input, this.#deps.now());
    const secret = newApiKeySecret(this.#deps.random);
    const record = this.#recordOf(secret, checked, "administrator");
    await this.#deps.keys.insert(record);
    return { record, secret };
  }

  /**
   * Lists keys, newest first, including revoked ones. `nextPageToken` is empty on the last page; a filtered page may be
   * short or empty.
   */
  async list({ account, search = "", state = null, ...request }: KeyListRequest) {
    const { limit, after } = toStorePage(request, (text) => parseCursor(text) !== null);
    const filter: KeyFilter = { account: account || null, search: checkSearch(search), state, nowMs: this.#deps.now() };
    const records: ApiKeyRecord[] = [];
    let next = after;
    for (let step = 0; step < stepsPerPage; step += 1) {
      const found = await this.#deps.keys.list({ filter, limit: limit - records.length, after: next });
      records.push(...found.records);
      next = found.next;
      if (next === null || records.length === limit) break;
    }
    return { records, nextPageToken: toPageToken(next) };
  }

  /** Rejects with `not_found`. */
  async get(id: string): Promise<ApiKeyRecord> {
    return (await this.#deps.keys.find(id)) ?? notFound();
  }

  /** Changes the fields present in `change`. Rejects as `create` does, and with `not_found`. */
  async update(id: string, change: KeyChange): Promise<ApiKeyRecord> {
    const checked = checkKeyChange(change, this.#deps.now());
    return (await this.#deps.keys.update(id, checked)) ?? notFound();
  }

  /** Idempotent. Rejects with `not_found`. */
  async revoke(id: string): Promise<ApiKeyRecord> {
    const record = (await this.#deps.keys.revoke(id, this.#deps.now())) ?? notFound();
    this.#deps.onRevoked?.(record);
    return record;
  }

  /**
   * Creates a new key with the same name, scope, account, models, limits and priority. The old key works until the overlap
   * ends or until its own expiry (KEY-16). Rejects with `not_found`, and with `invalid_value` for a revoked key.
   */
  async rotate({ id, overlapMs, expiresAtMs }: RotateKey): Promise<RotatedKey> {
    const nowMs = this.#deps.now();
    const oldEndsAtMs = nowMs + checkOverlap(overlapMs);
    checkExpiry(expiresAtMs, nowMs);
    const old = await this.get(id);
    const secret = newApiKeySecret(this.#deps.random);
    const record = this.#recordOf(secret, { ...old, expiresAtMs }, "administrator");
    const isDone = old.revokedAtMs === null && (await this.#deps.keys.rotate(id, record, oldEndsAtMs));
    if (!isDone) refuse("invalid_value", "id", "The key is revoked: create a new one instead.");
    return { record, secret, oldExpiresAtMs: Math.min(oldEndsAtMs, old.expiresAtMs ?? oldEndsAtMs) };
  }

  /** Creates the key `default` in an empty store; null if there is a key or another replica was first. */
  async ensureFirst(): Promise<CreatedKey | null> {
    const secret = newApiKeySecret(this.#deps.random);
    const record = this.#recordOf(secret, openToAll, "first_start");
    return (await this.#deps.keys.insertFirst(record)) ? { record, secret } : null;
  }

  /** Registers the operator's own key. Idempotent: a revoked key stays revoked. */
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
    const { name, account, scope, models, limits, priority, expiresAtMs } = key;
    return {
      id: this.#deps.ids.text("key_"),
      name,
      account,
      scope,
      hash: hashApiKey(secret),
      ...shownEndsOf(secret),
      models,
      limits,
      ...storedPriority(priority),
      createdAtMs: this.#deps.now(),
      createdBy,
      expiresAtMs,
      revokedAtMs: null,
      lastUsedAtMs: null,
    };
  }
}

function checkBootstrap(secret: string): void {
  if (!isPresentable(secret)) {
    throw new ServiceError("invalid_value", "A key of your own must be 8 to 256 printable characters without spaces.");
  }
  // Authentication rejects a wrong checksum without a look-up.
  if (isMistypedApiKey(secret)) {
    throw new ServiceError("invalid_value", "The key has the form of a generated key but a wrong checksum.");
  }
}

function notFound(): never {
  return refuse("not_found", "id", "There is no API key with this id.");
}

/** Time for which revocations are remembered: far longer than a replica of the store lags behind its primary. */
const keptMs = 300_000;
const revocationsMax = 10_000;
/** A cluster can fail over while the change feed stays connected. */
const readEveryMs = 30_000;

interface RevocationReadBackDeps {
  readonly keys: Pick<KeyStore, "find" | "revoke">;
  readonly changes: Pick<ChangeFeed, "subscribe">;
  readonly clock: Pick<Clock, "monotonic" | "after">;
  readonly log: Logger;
}

/**
 * A fail-over can lose the last writes, which would make a revoked key valid again. Revocations of the last minutes are
 * therefore read back every 30 s and after the change feed was disconnected, and repeated where they are missing.
 */
export class RevocationReadBack {
  readonly #deps: RevocationReadBackDeps;
  readonly #unsubscribe: () => void;
  readonly #recent = new BoundedMap<string, { readonly revokedAtMs: number; readonly notedAtMs: number }>(
    revocationsMax,
  );
  #cancelTimer: () => void = () => {};
  #reading: Promise<void> = Promise.resolve();
  #isReadQueued = false;
  #closed = false;

  constructor(deps: RevocationReadBackDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => {
      if (change.kind === "lost_link") this.#read();
    });
    this.#readLater();
  }

  /** Remembers an acknowledged revocation. */
  note({ id, revokedAtMs }: Pick<ApiKeyRecord, "id" | "revokedAtMs">): void {
    if (revokedAtMs !== null) this.#recent.set(id, { revokedAtMs, notedAtMs: this.#deps.clock.monotonic() });
  }

  /** Resolves when no read is in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#cancelTimer();
    await this.#reading;
  }

  #readLater(): void {
    this.#cancelTimer = this.#deps.clock.after(readEveryMs, () => {
      this.#read();
      this.#readLater();
    });
  }

  /** Starts a round of reads. Only one round runs at a time; calls during a round start one more after it. */
  #read(): void {
    if (this.#isReadQueued) return;
    this.#isReadQueued = true;
    this.#reading = this.#reading.then(() => {
      this.#isReadQueued = false;
      return this.#readBack();
    });
  }

  /** Never rejects: the next round repeats reads that failed. */
  async #readBack(): Promise<void> {
    const { keys, clock, log } = this.#deps;
    try {
      for (const [id, { revokedAtMs, notedAtMs }] of [...this.#recent.entries()]) {
        if (this.#closed) return;
        if (clock.monotonic() - notedAtMs >= keptMs) this.#recent.delete(id);
        else if ((await keys.find(id))?.revokedAtMs === null) {
          await keys.revoke(id, revokedAtMs);
          log.warn({ key_id: id }, "store lost a key revocation; key revoked again");
        }
      }
    } catch (err) {
      log.debug({ err }, "revocations could not be read back; retrying later");
    }
  }
}
