import type { AbortFlag } from "../../lib/abort-source.js";
import { isSameDigest, sha256Hex } from "../../lib/crypto.js";
import type { Clock, IdSource } from "../call/ports.js";
import { checkLength, checkPresent, refuse, ServiceError } from "../call/service-error.js";
import { KnownSignIns, type SignInPlace } from "./known-sign-ins.js";
import type { NewSession, Sessions, SignInOrigin } from "./sessions.js";
import { type SignInAttempt, SignInThrottle } from "./sign-in-throttle.js";

/** The only user name that can sign in. */
export const administratorName = "admin";

const overwriteTriesMax = 5;
/** A set-up link is valid once, within an hour (KEY-20). */
const linkValidMs = 3_600_000;
/** Length of a token: 43 base62 characters hold 256 bits. */
const tokenChars = 43;
/** Stored form of a link: SHA-256 of the token and its expiry; empty once used. */
const linkForm = /^([0-9a-f]{64}):(\d{1,16})$/;
/** The page that sets the password. Browsers do not send the fragment, which holds the token. */
const pagePath = "/dashboard/setup";

/** A program or browser that signs in. */
export interface SignInCaller extends SignInOrigin, SignInPlace {
  /** Aborts when the client leaves. */
  readonly signal?: AbortFlag | null;
}

/** A new session, and the token for the cookie by which the browser is recognized at its next sign-in. */
export interface SignedIn extends NewSession {
  readonly browserToken: string;
}

/** A change of the password by a caller that is signed in. */
export interface PasswordChange {
  readonly current: string;
  readonly next: string;
  /** Null: the caller has the administrator's token. */
  readonly sessionId: string | null;
  /** Peer address without port. */
  readonly address: string;
  /** Aborts when the client leaves. */
  readonly signal?: AbortFlag | null;
}

interface AdministratorDeps {
  readonly settings: SettingsStore;
  readonly sessions: Sessions;
  readonly passwords: Passwords;
  readonly clock: Pick<Clock, "monotonic" | "after">;
  /** Store time. */
  readonly now: () => number;
  readonly ids: Pick<IdSource, "text">;
}

/** The administrator's password, set-up links and sign-in. Only hashes of passwords and tokens are stored. */
export class Administrator {
  readonly #deps: AdministratorDeps;
  readonly #known: KnownSignIns;
  readonly #throttle: SignInThrottle;

  constructor(deps: AdministratorDeps) {
    this.#deps = deps;
    this.#known = new KnownSignIns(deps);
    this.#throttle = new SignInThrottle(deps.clock);
  }

  async hasPassword(): Promise<boolean> {
    return (await this.#password()) !== null;
  }

  /**
   * Applies `UIS_ADMIN_PASSWORD` at each start. Resolves to true if it differs from the stored one; all sessions then
   * end. Rejects with ServiceError for an unacceptable password. Takes some tenths of a second.
   */
  async setPassword(password: string): Promise<boolean> {
    checkPassword(password, "password");
    const { passwords } = this.#deps;
    const hash = (await this.#password())?.value ?? null;
    if (hash !== null && (await passwords.isRight(password, hash, true))) return false;
    await this.#replacePassword(await passwords.hash(password), null);
    return true;
  }

  /**
   * Rejects with `invalid_api_key`, with the same message and after the same time for an unknown name as for a wrong
   * password, or with `rate_limit_exceeded`.
   */
  async signIn(user: string, password: string, from: SignInCaller): Promise<SignedIn> {
    const { sessions } = this.#deps;
    const knownAs = await this.#known.find(from);
    const { address, signal = null } = from;
    const version = await this.#prove({ user, password, knownAs, address, signal });
    const browserToken = await this.#known.note(from);
    const begun = await sessions.begin(user, from);
    if ((await this.#password())?.version === version) return { ...begun, browserToken };
    // The password was replaced during the sign-in. That ended only the sessions that already existed, so end this one too.
    await sessions.end(begun.record.id);
    throw wrongPassword();
  }

  /** Replaces the password and ends all other sessions. Rejects as `signIn` does when `current` is wrong. */
  async changePassword({ current, next, sessionId, address, signal = null }: PasswordChange): Promise<void> {
    checkPassword(next, "new_password");
    const knownAs = sessionId === null ? "token" : `session ${sessionId}`;
    await this.#prove({ user: administratorName, password: current, knownAs, address, signal });
    await this.#replacePassword(await this.#deps.passwords.hash(next), sessionId);
  }

  /** Creates a one-time link that sets the password without the old one; the previous link becomes invalid. */
  async createSetupLink(): Promise<SetupLink> {
    const { now, ids } = this.#deps;
    const token = ids.text("", tokenChars);
    const expiresAtMs = now() + linkValidMs;
    await this.#overwrite("admin.setup", `${sha256Hex(token)}:${expiresAtMs}`);
    return { path: `${pagePath}#token=${token}`, token, expiresAtMs };
  }

  /** Sets the password with the token of a set-up link and signs in. Rejects with `invalid_api_key` for an invalid link. */
  async completeSetup(token: string, password: string, from: SignInCaller): Promise<SignedIn> {
    const { settings, passwords, sessions } = this.#deps;
    checkPassword(password, "password");
    // Only wrong tokens are counted and limited, so the failures of other callers never block a valid token.
    const version = await this.checkSetupToken(token).catch((error: unknown) => {
      this.#throttle.countFailure(from.address);
      throw error;
    });
    const hash = await passwords.hash(password);
    if (!(await settings.put("admin.setup", "", version))) throw invalidLink();
    await this.#replacePassword(hash, null);
    const browserToken = await this.#known.note(from);
    return { ...(await sessions.begin(administratorName, from)), browserToken };
  }

  /** Version of the stored link of a token. Rejects with `invalid_api_key` for an invalid token. */
  async checkSetupToken(token: string): Promise<number> {
    const stored = await this.#deps.settings.get("admin.setup");
    const [, hash, expiresAtMs] = linkForm.exec(stored?.value ?? "") ?? [];
    if (stored === null || hash === undefined || !isSameDigest(sha256Hex(token), hash)) throw invalidLink();
    if (this.#deps.now() >= Number(expiresAtMs)) throw invalidLink();
    return stored.version;
  }

  /**
   * Checks a password. Resolves to the version of the stored one; rejects with `invalid_api_key` if it differs or none is
   * stored.
   */
  async #prove({ password, ...attempt }: Proof): Promise<number | null> {
    const end = await this.#throttle.begin(attempt);
    let isWrong = false;
    try {
      const stored = await this.#password();
      const hash = attempt.user === administratorName ? (stored?.value ?? null) : null;
      isWrong = !(await this.#deps.passwords.isRight(password, hash, attempt.knownAs !== null));
      if (!isWrong) return stored?.version ?? null;
    } finally {
      end(isWrong);
    }
    throw wrongPassword();
  }

  #password(): Promise<StoredSetting | null> {
    return this.#deps.settings.get("admin.password");
  }

  /** The last writer wins. Sessions from an earlier password end. */
  async #replacePassword(hash: string, keepSessionId: string | null): Promise<void> {
    await this.#overwrite("admin.password", hash);
    await this.#deps.sessions.endOthers(administratorName, keepSessionId);
  }

  /** Writes a setting, whatever its stored version is. */
  async #overwrite(name: SettingName, value: string): Promise<void> {
    const { settings } = this.#deps;
    for (let tries = 0; tries < overwriteTriesMax; tries++) {
      const stored = await settings.get(name);
      if (await settings.put(name, value, stored?.version ?? null)) return;
    }
    throw new ServiceError("conflict", "Other requests are changing the same setting. Try again.");
  }
}

/** A password to check, and its sender. */
interface Proof extends SignInAttempt {
  readonly password: string;
}

function wrongPassword(): ServiceError {
  return new ServiceError("invalid_api_key", "Incorrect user name or password.");
}

function invalidLink(): ServiceError {
  return new ServiceError(
    "invalid_api_key",
    "The set-up link is not valid: it was used, replaced or has expired. Create a new one with: uis admin link",
  );
}

interface SetupLink {
  /** Path and fragment, to append to `http://host:port`. */
  readonly path: string;
  readonly token: string;
  readonly expiresAtMs: number;
}

/**
 * A setting that the service stores for itself: for example the administrator's password hash. `secrets.canary` is a known
 * text encrypted with the master key.
 */
export interface StoredSetting {
  readonly value: string;
  /** Starts at 1 and grows by one with each change. */
  readonly version: number;
}

export type SettingName = "admin.password" | "admin.setup" | "admin.sign_ins" | "secrets.canary";

/** Port of the settings store. Rejects with `storage_unavailable`. */
export interface SettingsStore {
  get(name: SettingName): Promise<StoredSetting | null>;
  /** Compare and set: writes only over `expectedVersion` (null: only if absent); false otherwise. */
  put(name: SettingName, value: string, expectedVersion: number | null): Promise<boolean>;
  remove(name: SettingName): Promise<void>;
}

const passwordCharsMin = 12;
const passwordCharsMax = 1_024;
/**
 * Maximum number of password hashes of unknown callers that wait. A hash takes 128 MiB and one core for some tenths of a
 * second, so the last one waits some seconds. Each known caller has at most one hash, computed before those of unknown
 * callers.
 */
const waitingMax = 16;
/** About the time until all waiting hashes are done. */
const retryAfterMs = 5_000;

/** Throws ServiceError for an unacceptable password. */
function checkPassword(password: string, param: string): void {
  checkPresent(password, param);
  checkLength(password, param, passwordCharsMax);
  if (password.length >= passwordCharsMin) return;
  refuse("invalid_value", param, `'${param}' must have at least ${passwordCharsMin} characters.`);
}

/** Hashing of passwords; tests use a cheap one. */
export interface PasswordHashing {
  readonly hashPassword: (password: string) => Promise<string>;
  readonly isPassword: (password: string, hash: string) => Promise<boolean>;
  /**
   * Hash that no password matches. It is compared when no password is stored, so that the answer takes the same time as with
   * one.
   */
  readonly noPassword: string;
}

/**
 * Hashes and compares passwords one at a time, to bound memory and cores. Rejects an unknown caller with
 * `rate_limit_exceeded` when 16 of them wait.
 */
export class Passwords {
  readonly #hashing: PasswordHashing;
  #isBusy = false;
  readonly #waitingKnown: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];

  constructor(hashing: PasswordHashing) {
    this.#hashing = hashing;
  }

  /** Hashes a new password. Only for authenticated callers: it is computed before the waiting hashes of unknown callers. */
  hash(password: string): Promise<string> {
    return this.#queued(() => this.#hashing.hashPassword(password), true);
  }

  /** False when `hash` is null, after the same time as a comparison. `isKnown`: the caller has signed in before. */
  async isRight(password: string, hash: string | null, isKnown: boolean): Promise<boolean> {
    if (password.length > passwordCharsMax) return false;
    const { isPassword, noPassword } = this.#hashing;
    const isSame = await this.#queued(() => isPassword(password, hash ?? noPassword), isKnown);
    return isSame && hash !== null;
  }

  async #queued<T>(run: () => Promise<T>, isKnown: boolean): Promise<T> {
    if (this.#isBusy) await this.#waitForTurn(isKnown);
    this.#isBusy = true;
    try {
      return await run();
    } finally {
      const next = this.#waitingKnown.shift() ?? this.#waiting.shift();
      // Stays busy while the next waiting call takes its turn, so that no other call starts in between.
      if (next === undefined) this.#isBusy = false;
      else next();
    }
  }

  /** Resolves when the previous hash is done. */
  #waitForTurn(isKnown: boolean): Promise<void> {
    const waiting = isKnown ? this.#waitingKnown : this.#waiting;
    if (!isKnown && waiting.length >= waitingMax) {
      throw new ServiceError("rate_limit_exceeded", "Too many concurrent sign-ins. Try again in some seconds.", {
        retryAfterMs,
      });
    }
    return new Promise((resolve) => waiting.push(resolve));
  }
}
