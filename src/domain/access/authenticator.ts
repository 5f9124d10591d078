import { type Operation, operationRow } from "../../contract/operations.js";
import { BoundedMap } from "../../lib/collections.js";
import { isSameDigest } from "../../lib/crypto.js";
import type { Browser } from "../call/call-context.js";
import type { ChangeFeed, Clock, Logger } from "../call/ports.js";
import { mayDo, type Principal, sessionIdOf, tokenAdministrator } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";
import { hashApiKey, isMistypedApiKey, isPresentable } from "./api-key.js";
import { AttemptLimit, hostOf } from "./attempt-limit.js";
import { KeyCache, knownKeysMax } from "./key-cache.js";
import type { ApiKeyRecord, KeyStore, KeyUse } from "./key-store.js";
import type { Sessions } from "./sessions.js";

/** The scheme in any case, exactly one space, then the key and nothing else (KEY-4, GEN-3). */
const authorizationForm = /^bearer ([^ ]+)$/i;

/** Bad credentials per minute and address (KEY-19). */
const failuresPerMinute = 60;

interface AuthenticatorDeps {
  readonly keys: Pick<KeyStore, "findByHash" | "touch">;
  readonly sessions: Pick<Sessions, "authenticate">;
  readonly changes: ChangeFeed;
  readonly clock: Clock;
  /** Store time, which decides what has expired. */
  readonly now: () => number;
  /** The administrator token of this process, and the one that the operator configured, if any. */
  readonly adminTokens: readonly string[];
  readonly log: Logger;
}

/**
 * Resolves an `authorization` header or a session cookie to a principal. Keys and tokens are compared as digests and
 * never logged.
 */
export class Authenticator {
  readonly #deps: AuthenticatorDeps;
  readonly #cache: KeyCache;
  readonly #lastUsed: LastUsed;
  readonly #failures = new AttemptLimit(failuresPerMinute);
  /** Cached digests of the administrator's tokens: hashing them for each request would cost microseconds. */
  readonly #tokenHashes = new BoundedMap<string, string>(16);
  /** Keys and principals by `authorization` header. The key cache decides whether a key is still valid. */
  readonly #seen = new BoundedMap<string, { readonly record: ApiKeyRecord; readonly principal: Principal }>(
    knownKeysMax,
  );

  constructor(deps: AuthenticatorDeps) {
    this.#deps = deps;
    this.#cache = new KeyCache(deps);
    this.#lastUsed = new LastUsed(deps);
    deps.changes.subscribe((change) => {
      if (change.kind === "key") this.#cache.forget(change.id);
      else if (change.kind === "lost_link") this.#cache.doubtAll();
    });
  }

  /**
   * Synchronous when the key is cached. Rejects with ServiceError `invalid_api_key`, with the same message for every bad key
   * (KEY-5), with `rate_limit_exceeded` after too many bad keys from `address` (KEY-19), or with `storage_unavailable` when
   * the key is not cached and the store does not answer (KEY-14). A session's token is ignored if there is an
   * `authorization` header.
   */
  authenticate(
    authorization: string | undefined,
    address: string,
    sessionToken?: string,
  ): Principal | Promise<Principal> {
    const header = authorization ?? "";
    const seen = this.#seen.get(header);
    if (seen !== undefined) {
      const nowMs = this.#deps.clock.monotonic();
      const isSame = this.#cache.fresh(seen.record.hash, nowMs) === seen.record;
      if (isSame && isValid(seen.record, this.#deps.now())) {
        this.#lastUsed.note(seen.record, nowMs);
        return seen.principal;
      }
    }
    const isSession = authorization === undefined && sessionToken !== undefined;
    const found = isSession ? this.#deps.sessions.authenticate(sessionToken) : this.#find(header, seen?.record.hash);
    return authorization === undefined && !isSession ? found : this.#countingFailure(found, address);
  }

  async #find(header: string, seenHash: string | undefined): Promise<Principal> {
    const hash = seenHash ?? this.#hashOf(header);
    if (hash === null) return tokenAdministrator;
    const record = await this.#cache.find(hash);
    if (record === null || !isValid(record, this.#deps.now())) throw invalidApiKey();
    const principal = principalOf(record);
    this.#seen.set(header, { record, principal });
    this.#lastUsed.note(record, this.#deps.clock.monotonic());
    return principal;
  }

  /**
   * Counts a bad credential for its address. Requests without a credential are not passed here, because they guess nothing.
   */
  async #countingFailure(found: Promise<Principal>, address: string): Promise<Principal> {
    try {
      return await found;
    } catch (thrown) {
      if (!(thrown instanceof ServiceError) || thrown.code !== "invalid_api_key") throw thrown;
      const waitMs = this.#failures.take(hostOf(address), this.#deps.clock.monotonic());
      if (waitMs === null) throw thrown;
      const sentence = `More than ${failuresPerMinute} bad credentials came from this address within a minute. Valid ones are still accepted.`;
      throw new ServiceError("rate_limit_exceeded", sentence, { retryAfterMs: waitMs });
    }
  }

  /** Digest of the key in a new header; null for the administrator's token. Throws for a malformed header. */
  #hashOf(header: string): string | null {
    const presented = authorizationForm.exec(header)?.[1];
    if (presented === undefined || !isPresentable(presented)) throw invalidApiKey();
    const hash = hashApiKey(presented);
    if (this.#isAdminToken(hash)) return null;
    if (isMistypedApiKey(presented)) throw invalidApiKey();
    return hash;
  }

  #isAdminToken(hash: string): boolean {
    return this.#deps.adminTokens.some((token) => isSameDigest(hash, this.#hashOfToken(token)));
  }

  #hashOfToken(token: string): string {
    const known = this.#tokenHashes.get(token);
    if (known !== undefined) return known;
    const hash = hashApiKey(token);
    this.#tokenHashes.set(token, hash);
    return hash;
  }
}

function principalOf({
  id,
  account,
  scope,
  models,
  limits,
  expiresAtMs,
  priority = "default",
}: ApiKeyRecord): Principal {
  return Object.freeze({ kind: "api_key", keyId: id, account, scope, models, limits, expiresAtMs, priority });
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

const needText = {
  none: "nothing",
  read: "the scope `read`",
  read_write: "the scope `read_write`",
  administrator: "the administrator's credential",
  admin_token: "the administrator's token",
} as const;

/**
 * Throws ServiceError `insufficient_permissions` for an operation that the principal may not call, and for a session used
 * by a page of another origin: browsers attach the cookie to requests of every page (KEY-22).
 */
export function requireAllowed(operation: Operation, principal: Principal, browser: Browser | undefined): void {
  const { need, isReading = need === "read" } = operationRow(operation);
  if (!mayDo(principal, need, isReading)) {
    const credential = principal.kind === "api_key" ? "This API key" : "This session";
    const sentence = `${credential} may not do this: it needs ${needText[need]}.`;
    throw new ServiceError("insufficient_permissions", sentence);
  }
  if (browser === undefined || isByToken(principal)) return;
  const { isSameOrigin } = browser;
  // Programs may sign in without an `Origin`; browsers send it with every request that changes something.
  const isNeeded = !isReading && need !== "none";
  if (isSameOrigin === false || (isNeeded && isSameOrigin === undefined)) {
    throw new ServiceError(
      "insufficient_permissions",
      "A session is valid only for pages of this server: the Origin header must match the scheme and host of the request.",
    );
  }
}

/** Whether the credential came in a header that browsers do not attach by themselves. */
function isByToken(principal: Principal): boolean {
  return principal.kind !== "nobody" && sessionIdOf(principal) === null;
}

const touchEveryMs = 60_000;
/** Maximum uses per write, so that a write takes the store a few milliseconds. */
const usesMax = 500;

type LastUsedDeps = Pick<AuthenticatorDeps, "now" | "log"> & { readonly keys: Pick<KeyStore, "touch"> };

/** Records the last use of keys, at most once a minute each and outside the request's path (KEY-15). */
class LastUsed {
  readonly #deps: LastUsedDeps;
  readonly #touchedAtMs = new BoundedMap<string, number>(knownKeysMax);
  /** Uses that the next write stores. Uses during a write are stored by the write after it. */
  #uses: KeyUse[] = [];
  #isWriting = false;
  #failing = false;

  constructor(deps: LastUsedDeps) {
    this.#deps = deps;
  }

  /** `nowMs` is monotonic. Never throws and is not awaited; the first failure is logged. */
  note({ id }: ApiKeyRecord, nowMs: number): void {
    const touchedAtMs = this.#touchedAtMs.get(id);
    if (touchedAtMs !== undefined && nowMs - touchedAtMs < touchEveryMs) return;
    this.#touchedAtMs.set(id, nowMs);
    this.#uses.push({ id, atMs: this.#deps.now() });
    if (!this.#isWriting) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    const { keys, log } = this.#deps;
    this.#isWriting = true;
    while (this.#uses.length > 0) {
      const uses = this.#uses.splice(0, usesMax);
      try {
        await keys.touch(uses);
        this.#failing = false;
      } catch (err) {
        const fields = { err, key_id: uses[0]?.id, keys: uses.length };
        if (!this.#failing) log.warn(fields, "last use of API keys could not be recorded");
        this.#failing = true;
      }
    }
    this.#isWriting = false;
  }
}
