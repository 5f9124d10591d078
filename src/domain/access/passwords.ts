import { ServiceError } from "../service-error.js";

const passwordCharsMin = 12;
const passwordCharsMax = 1_024;
/** Each takes 128 MiB and one core while it is computed. */
const atOnceMax = 2;
const waitingMax = 16;
const retryAfterMs = 2_000;

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
 * Hashes and compares passwords, at most two at the same time: whoever sends many is made to wait, not the rest of the
 * service. Rejects with `server_is_overloaded` when too many wait.
 */
export class Passwords {
  readonly #hashing: PasswordHashing;
  #running = 0;
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
    if (this.#running >= atOnceMax) await this.#turn();
    else this.#running += 1;
    try {
      return await run();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  /** Resolves when the place of one that has finished is handed on. */
  #turn(): Promise<void> {
    if (this.#waiting.length >= waitingMax) {
      throw new ServiceError("server_is_overloaded", "Too many people sign in at the same moment. Try again.", {
        retryAfterMs,
      });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
