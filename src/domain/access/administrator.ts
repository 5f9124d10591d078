import { isSameDigest, sha256Hex } from "../../lib/crypto.js";
import type { Clock, IdSource } from "../call/ports.js";
import { checkLength, checkPresent, refuse, ServiceError } from "../call/service-error.js";
import { AttemptLimit, networkOf } from "./authenticator.js";
import type { NewSession, Sessions, SignInOrigin } from "./sessions.js";

/** The only user name. */
export const administratorName = "admin";

/** Failed sign-ins per minute, by address and by name (KEY-21). */
const attemptsPerMinute = 5;
const replaceTriesMax = 5;

interface AdministratorDeps {
  readonly settings: SettingsStore;
  readonly sessions: Sessions;
  readonly setupLinks: SetupLinks;
  readonly passwords: Passwords;
  readonly clock: Pick<Clock, "monotonic">;
}

/** The administrator's password and sign-in. Only the password's hash is stored. */
export class Administrator {
  readonly #deps: AdministratorDeps;
  readonly #byAddress = new AttemptLimit(attemptsPerMinute);
  readonly #byName = new AttemptLimit(attemptsPerMinute);

  constructor(deps: AdministratorDeps) {
    this.#deps = deps;
  }

  async hasPassword(): Promise<boolean> {
    return (await this.#kept()) !== null;
  }

  /**
   * Applies `UIS_ADMIN_PASSWORD` at each start. Resolves to true if it differs from the stored one; all sessions then
   * end. Rejects with ServiceError for an unacceptable password. Takes some tenths of a second.
   */
  async setPassword(password: string): Promise<boolean> {
    checkPassword(password, "password");
    const kept = await this.#kept();
    if (kept !== null && (await this.#deps.passwords.isRight(password, kept))) return false;
    await this.#replace(await this.#deps.passwords.hash(password), null);
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
    await this.#replace(await this.#deps.passwords.hash(next), keepSessionId);
  }

  /**
   * Sets the password with the token of a set-up link and signs in. Rejects with `invalid_api_key` for an invalid link.
   */
  async completeSetup(token: string, password: string, from: SignInOrigin): Promise<NewSession> {
    checkPassword(password, "password");
    const network = networkOf(from.address);
    this.#take(this.#byAddress, network);
    const version = await this.#deps.setupLinks.check(token);
    const kept = await this.#deps.passwords.hash(password);
    await this.#deps.setupLinks.use(version);
    this.#byAddress.giveBack(network);
    await this.#replace(kept, null);
    return this.#deps.sessions.begin(administratorName, from);
  }

  async #prove(user: string, password: string, address: string): Promise<void> {
    const network = networkOf(address);
    this.#take(this.#byAddress, network);
    this.#take(this.#byName, user);
    const kept = await this.#kept();
    const isRight = await this.#deps.passwords.isRight(password, user === administratorName ? kept : null);
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

  async #kept(): Promise<string | null> {
    return (await this.#deps.settings.get("admin.password"))?.value ?? null;
  }

  /** The last writer wins. Sessions from an earlier password end. */
  async #replace(kept: string, keepSessionId: string | null): Promise<void> {
    const { settings, sessions } = this.#deps;
    for (let tries = 0; tries < replaceTriesMax; tries++) {
      const before = await settings.get("admin.password");
      if (!(await settings.put("admin.password", kept, before?.version ?? null))) continue;
      await sessions.endOthers(administratorName, keepSessionId);
      return;
    }
    throw new ServiceError("conflict", "The password is being changed by other requests. Try again.");
  }
}

/** A link is valid once, within an hour (KEY-20). */
const validMs = 3_600_000;
/** 43 characters of 62 hold 256 bits. */
const tokenChars = 43;
/** Stored form: SHA-256 of the token and its expiry; empty once used. */
const keptForm = /^([0-9a-f]{64}):(\d{1,16})$/;

/** The page that sets the password. Browsers do not send the fragment, which holds the token. */
const pagePath = "/dashboard/setup";

interface SetupLink {
  /** Path and fragment, to append to `http://host:port`. */
  readonly path: string;
  readonly token: string;
  readonly expiresAtMs: number;
}

interface SetupLinksDeps {
  readonly settings: SettingsStore;
  readonly now: () => number;
  readonly ids: Pick<IdSource, "text">;
}

/** One-time links that set the administrator's password without the old one. */
export class SetupLinks {
  readonly #deps: SetupLinksDeps;

  constructor(deps: SetupLinksDeps) {
    this.#deps = deps;
  }

  /** Creates a link; the previous one becomes invalid. */
  async create(): Promise<SetupLink> {
    const { settings, now, ids } = this.#deps;
    const token = ids.text("", tokenChars);
    const expiresAtMs = now() + validMs;
    for (let tries = 0; tries < replaceTriesMax; tries++) {
      const kept = await settings.get("admin.setup");
      const isPut = await settings.put("admin.setup", `${sha256Hex(token)}:${expiresAtMs}`, kept?.version ?? null);
      if (isPut) return { path: `${pagePath}#token=${token}`, token, expiresAtMs };
    }
    throw new ServiceError("conflict", "Other requests are creating set-up links. Try again.");
  }

  /** Returns the version to pass to `use`. Rejects with `invalid_api_key` for an invalid token. */
  async check(token: string): Promise<number> {
    const kept = await this.#deps.settings.get("admin.setup");
    const [, hash, expiresAtMs] = keptForm.exec(kept?.value ?? "") ?? [];
    if (kept === null || hash === undefined || !isSameDigest(sha256Hex(token), hash)) throw notValid();
    if (this.#deps.now() >= Number(expiresAtMs)) throw notValid();
    return kept.version;
  }

  /** Invalidates the token of `check`. Rejects with `invalid_api_key` if it was used meanwhile. */
  async use(version: number): Promise<void> {
    if (!(await this.#deps.settings.put("admin.setup", "", version))) throw notValid();
  }
}

function notValid(): ServiceError {
  return new ServiceError(
    "invalid_api_key",
    "The set-up link is not valid: it was used, replaced or has expired. Create a new one with: uis admin link",
  );
}

/** A setting that the service stores for itself: the administrator's password hash, the canary of the master key. */
export interface KeptSetting {
  readonly value: string;
  /** Starts at 1 and grows by one with each change. */
  readonly version: number;
}

export type SettingName = "admin.password" | "admin.setup" | "secrets.canary";

/** Port of the settings store. Rejects with `storage_unavailable`. */
export interface SettingsStore {
  get(name: SettingName): Promise<KeptSetting | null>;
  /** Compare and set: writes only over `expectedVersion` (null: only if absent); false otherwise. */
  put(name: SettingName, value: string, expectedVersion: number | null): Promise<boolean>;
  remove(name: SettingName): Promise<void>;
}

const passwordCharsMin = 12;
const passwordCharsMax = 1_024;
/** The last one waits some seconds: each takes 128 MiB, one core and some tenths of a second. */
const waitingMax = 16;
/** About the time until all waiting ones are done. */
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
  readonly isPassword: (password: string, kept: string) => Promise<boolean>;
  /** Hash of an unknown password, to compare with when none is stored: that takes as long. */
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

  /** False, after the same time, when `kept` is null. */
  async isRight(password: string, kept: string | null): Promise<boolean> {
    if (password.length > passwordCharsMax) return false;
    const { isPassword, noPassword } = this.#hashing;
    const isSame = await this.#queued(() => isPassword(password, kept ?? noPassword));
    return isSame && kept !== null;
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

  /** Resolves at the end of the last one before it. */
  #waitForTurn(): Promise<void> {
    if (this.#waiting.length >= waitingMax) {
      throw new ServiceError("rate_limit_exceeded", "Too many concurrent sign-ins. Try again in some seconds.", {
        retryAfterMs,
      });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
