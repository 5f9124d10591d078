import type { Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { AttemptLimit, networkOf } from "./attempt-limit.js";
import { checkPassword, type Passwords } from "./passwords.js";
import type { NewSession, Sessions } from "./sessions.js";
import type { SettingsStore, SetupLinks } from "./setup-link.js";

/** The one name that can sign in. */
export const administratorName = "admin";

/** Attempts to sign in, per address and per name (KEY-21). Good ones do not count. */
const attemptsPerMinute = 5;
const replaceTriesMax = 5;

/** Where somebody signs in from. */
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

/** The administrator's password, and signing in with it. Its hash is kept with the state, the password nowhere. */
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
   * The operator's choice (`UIS_ADMIN_PASSWORD`), at each start the same: true when it is another than before, and all
   * sessions have ended. Rejects with ServiceError when it may not be a password. Takes some tenths of a second.
   */
  async setPassword(password: string): Promise<boolean> {
    checkPassword(password, "password");
    const kept = await this.#kept();
    if (kept !== null && (await this.#deps.passwords.isRight(password, kept))) return false;
    await this.#replace(await this.#deps.passwords.hash(password), null);
    return true;
  }

  /**
   * Rejects with `invalid_api_key`, which does not tell an unknown name from a wrong password and takes as long for
   * both, or with `rate_limit_exceeded`.
   */
  async signIn(user: string, password: string, from: SignInOrigin): Promise<NewSession> {
    await this.#prove(user, password, from.address);
    return this.#deps.sessions.begin(user, from);
  }

  /** Ends all sessions but `keepSessionId`. Rejects as `signIn` does when `current` is not the password. */
  async changePassword(current: string, next: string, address: string, keepSessionId: string | null): Promise<void> {
    checkPassword(next, "new_password");
    await this.#prove(administratorName, current, address);
    await this.#replace(await this.#deps.passwords.hash(next), keepSessionId);
  }

  /** Sets the password by a set-up link and signs in. Rejects with `invalid_api_key` for a link that is not valid. */
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

  /** Counted before the work is done: attempts at the same moment must not slip through together. */
  #take(limit: AttemptLimit, caller: string): void {
    const retryAfterMs = limit.take(caller, this.#deps.clock.monotonic());
    if (retryAfterMs === null) return;
    throw new ServiceError("rate_limit_exceeded", "Too many attempts to sign in. Wait a minute.", { retryAfterMs });
  }

  async #kept(): Promise<string | null> {
    return (await this.#deps.settings.get("admin.password"))?.value ?? null;
  }

  /** The last one wins. Whoever signed in with an earlier password is out. */
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
