import { isSameDigest, sha256Hex } from "../../lib/crypto.js";
import type { Clock, IdSource } from "../call/ports.js";
import { checkLength, checkPresent, refuse, ServiceError } from "../call/service-error.js";
import { AttemptLimit, networkOf } from "./authenticator.js";
import type { NewSession, Sessions, SignInOrigin } from "./sessions.js";

/** The only user name. */
export const administratorName = "admin";

/** Failed sign-ins per minute, by address and by name (KEY-21). */
const attemptsPerMinute = 5;
const overwriteTriesMax = 5;
/** A set-up link is valid once, within an hour (KEY-20). */
const linkValidMs = 3_600_000;
/** 43 characters of an alphabet of 62 hold 256 bits. */
const tokenChars = 43;
/** Stored form of a link: SHA-256 of the token and its expiry; empty once used. */
const linkForm = /^([0-9a-f]{64}):(\d{1,16})$/;
/** The page that sets the password. Browsers do not send the fragment, which holds the token. */
const pagePath = "/dashboard/setup";

interface AdministratorDeps {
  readonly settings: SettingsStore;
  readonly sessions: Sessions;
  readonly passwords: Passwords;
  readonly clock: Pick<Clock, "monotonic">;
  /** Store time. */
  readonly now: () => number;
  readonly ids: Pick<IdSource, "text">;
}

/** The administrator's password, set-up links and sign-in. Only hashes of passwords and tokens are stored. */
export class Administrator {
  readonly #deps: AdministratorDeps;
  readonly #byAddress = new AttemptLimit(attemptsPerMinute);
  readonly #byName = new AttemptLimit(attemptsPerMinute);

  constructor(deps: AdministratorDeps) {
    this.#deps = deps;
  }

  async hasPassword(): Promise<boolean> {
    return (await this.#passwordHash()) !== null;
  }

  /**
   * Applies `UIS_ADMIN_PASSWORD` at each start. Resolves to true if it differs from the stored one; all sessions then
   * end. Rejects with ServiceError for an unacceptable password. Takes some tenths of a second.
   */
  async setPassword(password: string): Promise<boolean> {
    checkPassword(password, "password");
    const { passwords } = this.#deps;
    const hash = await this.#passwordHash();
    if (hash !== null && (await passwords.isRight(password, hash))) return false;
    await this.#replacePassword(await passwords.hash(password), null);
    return true;
  }

  /**
   * Rejects with `invalid_api_key`, the same and in the same time for an unknown name and a wrong password, or with
   * `rate_limit_exceeded`.
   */
  async signIn(user: string, password: string, from: SignInOrigin): Promise<NewSession> {
    await this.#prove(user, password, from.address);
    return this.#deps.sessions.begin(user, from);
  }

  /** Ends all other sessions. Rejects as `signIn` does when `current` is wrong. */
  async changePassword(current: string, next: string, address: string, keepSessionId: string | null): Promise<void> {
    checkPassword(next, "new_password");
    await this.#prove(administratorName, current, address);
    await this.#replacePassword(await this.#deps.passwords.hash(next), keepSessionId);
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
  async completeSetup(token: string, password: string, from: SignInOrigin): Promise<NewSession> {
    const { settings, passwords, sessions } = this.#deps;
    checkPassword(password, "password");
    const network = networkOf(from.address);
    this.#take(this.#byAddress, network);
    const version = await this.checkSetupToken(token);
    const hash = await passwords.hash(password);
    if (!(await settings.put("admin.setup", "", version))) throw invalidLink();
    this.#byAddress.giveBack(network);
    await this.#replacePassword(hash, null);
    return sessions.begin(administratorName, from);
  }

  /** Version of the stored link of a token. Rejects with `invalid_api_key` for an invalid token. */
  async checkSetupToken(token: string): Promise<number> {
    const stored = await this.#deps.settings.get("admin.setup");
    const [, hash, expiresAtMs] = linkForm.exec(stored?.value ?? "") ?? [];
    if (stored === null || hash === undefined || !isSameDigest(sha256Hex(token), hash)) throw invalidLink();
    if (this.#deps.now() >= Number(expiresAtMs)) throw invalidLink();
    return stored.version;
  }

  async #prove(user: string, password: string, address: string): Promise<void> {
    const network = networkOf(address);
    this.#take(this.#byAddress, network);
    this.#take(this.#byName, user);
    const hash = await this.#passwordHash();
    const isRight = await this.#deps.passwords.isRight(password, user === administratorName ? hash : null);
    if (!isRight) throw new ServiceError("invalid_api_key", "Incorrect user name or password.");
    this.#byAddress.giveBack(network);
    this.#byName.giveBack(user);
  }

  /** Counted before hashing, so that concurrent attempts cannot exceed the limit. */
  #take(limit: AttemptLimit, caller: string): void {
    const retryAfterMs = limit.take(caller, this.#deps.clock.monotonic());
    if (retryAfterMs === null) return;
    throw new ServiceError("rate_limit_exceeded", "Too many attempts to sign in. Wait a minute.", { retryAfterMs });
  }

  async #passwordHash(): Promise<string | null> {
    return (await this.#deps.settings.get("admin.password"))?.value ?? null;
  }

  /** The last writer wins. Sessions from an earlier password end. */
  async #replacePassword(hash: string, keepSessionId: string | null): Promise<void> {
    await this.#overwrite("admin.password", hash);
    await this.#deps.sessions.endOthers(administratorName, keepSessionId);
  }

  /** Writes a setting over any version. */
  async #overwrite(name: SettingName, value: string): Promise<void> {
    const { settings } = this.#deps;
    for (let tries = 0; tries < overwriteTriesMax; tries++) {
      const stored = await settings.get(name);
      if (await settings.put(name, value, stored?.version ?? null)) return;
    }
    throw new ServiceError("conflict", "Other requests are changing the same setting. Try again.");
  }
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

/** A setting that the service stores for itself: the administrator's password hash, the canary of the master key. */
export interface StoredSetting {
  readonly value: string;
  /** Starts at 1 and grows by one with each change. */
  readonly version: number;
}

export type SettingName = "admin.password" | "admin.setup" | "secrets.canary";

/** Port of the settings store. Rejects with `storage_unavailable`. */
export interface SettingsStore {
  get(name: SettingName): Promise<StoredSetting | null>;
  /** Compare and set: writes only over `expectedVersion` (null: only if absent); false otherwise. */
  put(name: SettingName, value: string, expectedVersion: number | null): Promise<boolean>;
  remove(name: SettingName): Promise<void>;
}

const passwordCharsMin = 12;
const passwordCharsMax = 1_024;
/** Maximum waiting hashes. Each takes 128 MiB, one core and some tenths of a second, so the last one waits some seconds. */
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
  /** Hash that no password matches, compared when no password is stored, so that both take equally long. */
  readonly noPassword: string;
}

/** Hashes and compares passwords one at a time, to bound memory and cores. Rejects with `rate_limit_exceeded` when 16 wait. */
export class Passwords {
  readonly #hashing: PasswordHashing;
  #isBusy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(hashing: PasswordHashing) {
    this.#hashing = hashing;
  }

  hash(password: string): Promise<string> {
    return this.#queued(() => this.#hashing.hashPassword(password));
  }

  /** False, after the same time, when `hash` is null. */
  async isRight(password: string, hash: string | null): Promise<boolean> {
    if (password.length > passwordCharsMax) return false;
    const { isPassword, noPassword } = this.#hashing;
    const isSame = await this.#queued(() => isPassword(password, hash ?? noPassword));
    return isSame && hash !== null;
  }

  async #queued<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await this.#waitForTurn();
    this.#isBusy = true;
    try {
      return await run();
    } finally {
      const next = this.#waiting.shift();
      // Stays busy for the next waiting one, so that no other call starts in between.
      if (next === undefined) this.#isBusy = false;
      else next();
    }
  }

  /** Resolves when the hash before it is done. */
  #waitForTurn(): Promise<void> {
    if (this.#waiting.length >= waitingMax) {
      throw new ServiceError("rate_limit_exceeded", "Too many concurrent sign-ins. Try again in some seconds.", {
        retryAfterMs,
      });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
