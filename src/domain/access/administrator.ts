import type { Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { AttemptLimit, networkOf } from "./attempt-limit.js";
import { checkPassword, type Passwords } from "./passwords.js";
import type { NewSession, Sessions } from "./sessions.js";
import type { SettingsStore, SetupLinks } from "./setup-link.js";

/** The only user name. */
export const administratorName = "admin";

/** Failed sign-ins per minute, by address and by name (KEY-21). */
const attemptsPerMinute = 5;
const replaceTriesMax = 5;

/** Origin of a sign-in. */
export interface SignInOrigin {
  readonly address: string;
  readonly userAgent: string;
}

export interface AdministratorDeps {
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
    if (!isRight) throw new ServiceError("invalid_api_key", "The name or the password is not right.");
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
    throw new ServiceError("conflict", "The password is changed by others at the same moment. Try again.");
  }
}
