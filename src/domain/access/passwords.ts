import { ServiceError } from "../call/service-error.js";

const passwordCharsMin = 12;
const passwordCharsMax = 1_024;
/** The last one waits some seconds: each takes 128 MiB, one core and some tenths of a second. */
const waitingMax = 16;
/** About what it takes until all that wait are done. */
const retryAfterMs = 5_000;

/** Throws ServiceError when the text may not be a password. */
export function checkPassword(password: string, param: string): void {
  if (password === "") throw new ServiceError("missing_required_parameter", `'${param}' is required.`, { param });
  if (password.length < passwordCharsMin) {
    throw new ServiceError("invalid_value", `'${param}' must have at least ${passwordCharsMin} characters.`, { param });
  }
  if (password.length > passwordCharsMax) {
    throw new ServiceError("string_above_max_length", `'${param}' may have at most ${passwordCharsMax} characters.`, {
      param,
    });
  }
}

/** How a password becomes what is kept of it. */
export interface PasswordHashing {
  readonly hashPassword: (password: string) => Promise<string>;
  readonly isPassword: (password: string, kept: string) => Promise<boolean>;
  /** What is compared with where nothing is kept: it costs as much, and nothing is known to fit it. */
  readonly noPassword: string;
}

/**
 * Hashes and compares passwords, one at a time: whoever sends many is made to wait, not the rest of the service. Rejects
 * with `rate_limit_exceeded` when too many wait.
 */
export class Passwords {
  readonly #hashing: PasswordHashing;
  #isBusy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(hashing: PasswordHashing) {
    this.#hashing = hashing;
  }

  hash(password: string): Promise<string> {
    return this.#inTurn(() => this.#hashing.hashPassword(password));
  }

  /** Null: there is none to compare with; that takes as long, and is never right. */
  async isRight(password: string, kept: string | null): Promise<boolean> {
    if (password.length > passwordCharsMax) return false;
    const { isPassword, noPassword } = this.#hashing;
    const isSame = await this.#inTurn(() => isPassword(password, kept ?? noPassword));
    return isSame && kept !== null;
  }

  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await this.#turn();
    this.#isBusy = true;
    try {
      return await run();
    } finally {
      const next = this.#waiting.shift();
      // The place is handed on: nobody slips in between.
      if (next === undefined) this.#isBusy = false;
      else next();
    }
  }

  /** Resolves when the place of one that has finished is handed on. */
  #turn(): Promise<void> {
    if (this.#waiting.length >= waitingMax) {
      throw new ServiceError("rate_limit_exceeded", "Too many sign in at the same moment. Try again in some seconds.", {
        retryAfterMs,
      });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
