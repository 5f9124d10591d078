import { BoundedMap } from "../../lib/bounded-map.js";
import { isSameDigest } from "../../lib/digest.js";
import type { Clock, Logger } from "../ports.js";
import { ServiceError } from "../service-error.js";
import { hashApiKey, isMistypedApiKey, isPresentable } from "./api-key-format.js";
import { KeyCache } from "./key-cache.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";
import { LastUsed } from "./last-used.js";
import type { Principal } from "./principal.js";

/** The scheme in any case, exactly one space, then the key and nothing else (KEY-4, GEN-3). */
const authorizationForm = /^bearer ([^ ]+)$/i;

const administrator: Principal = { kind: "administrator", keyId: null, account: "default" };

/** Keys that are remembered by their header: twice as many are held as are sure to be there. */
const seenMax = 10_000;

interface SeenKey {
  readonly record: ApiKeyRecord;
  /** Made of the record. */
  readonly principal: Principal;
}

export interface AuthenticatorDeps {
  readonly keys: Pick<KeyStore, "findByHash" | "touch">;
  readonly clock: Clock;
  /** The credentials of the administrator as they are now: the operator's own, and that of this process. */
  readonly adminTokens: () => readonly string[];
  readonly log: Logger;
}

/** Turns an `authorization` header into who calls. Keys and tokens are compared as digests only and are never logged. */
export class Authenticator {
  readonly #deps: AuthenticatorDeps;
  readonly #cache: KeyCache;
  readonly #lastUsed: LastUsed;
  /** Digests of the administrator's tokens by token: hashing them anew would cost every request microseconds. */
  readonly #tokenHashes = new BoundedMap<string, string>(16);

  /** Keys that were good, by the header that they came in. Whether a key still is good, the cache of records says. */
  readonly #seen = new BoundedMap<string, SeenKey>(seenMax);

  constructor(deps: AuthenticatorDeps) {
    this.#deps = deps;
    this.#cache = new KeyCache(deps);
    this.#lastUsed = new LastUsed(deps);
  }

  /**
   * Answers at once when the key was seen before and its record is fresh. Rejects with ServiceError `invalid_api_key`, in
   * the same words for every kind of bad key (KEY-5), or with `storage_unavailable` when the key is not known here and
   * the store cannot be asked (KEY-14).
   */
  authenticate(authorization: string | undefined): Principal | Promise<Principal> {
    const header = authorization ?? "";
    const seen = this.#seen.get(header);
    if (seen !== undefined) {
      const nowMs = this.#deps.clock.monotonic();
      const isSame = this.#cache.fresh(seen.record.hash, nowMs) === seen.record;
      if (isSame && isValid(seen.record, this.#deps.clock.now())) {
        this.#lastUsed.note(seen.record, nowMs);
        return seen.principal;
      }
    }
    return this.#find(header, seen?.record.hash);
  }

  async #find(header: string, seenHash: string | undefined): Promise<Principal> {
    const hash = seenHash ?? this.#hashOf(header);
    if (hash === null) return administrator;
    const record = await this.#cache.find(hash);
    if (record === null || !isValid(record, this.#deps.clock.now())) throw invalidApiKey();
    const principal = principalOf(record);
    this.#seen.set(header, { record, principal });
    this.#lastUsed.note(record, this.#deps.clock.monotonic());
    return principal;
  }

  /** Digest of the key in a header that was not seen before; null: it is the administrator's. Throws for what is no key. */
  #hashOf(header: string): string | null {
    const presented = authorizationForm.exec(header)?.[1];
    if (presented === undefined || !isPresentable(presented)) throw invalidApiKey();
    const hash = hashApiKey(presented);
    if (this.#isAdminToken(hash)) return null;
    if (isMistypedApiKey(presented)) throw invalidApiKey();
    return hash;
  }

  /** Call it when a key was changed or revoked: its next use reads the store. */
  forget(keyId: string): void {
    this.#cache.forget(keyId);
  }

  #isAdminToken(hash: string): boolean {
    return this.#deps.adminTokens().some((token) => isSameDigest(hash, this.#hashOfToken(token)));
  }

  #hashOfToken(token: string): string {
    const known = this.#tokenHashes.get(token);
    if (known !== undefined) return known;
    const hash = hashApiKey(token);
    this.#tokenHashes.set(token, hash);
    return hash;
  }
}

function principalOf({ id, account, scope, models }: ApiKeyRecord): Principal {
  return Object.freeze({ kind: "api_key", keyId: id, account, scope, models });
}

function isValid(record: ApiKeyRecord, nowMs: number): boolean {
  if (record.revokedAtMs !== null) return false;
  return record.expiresAtMs === null || nowMs < record.expiresAtMs;
}

function invalidApiKey(): ServiceError {
  return new ServiceError(
    "invalid_api_key",
    "The API key is missing or not valid. Send a valid one as: Authorization: Bearer <key>.",
  );
}
