import { createHmac, randomBytes } from "node:crypto";

/** Random in each process, so that a digest reveals nothing outside it. */
const digestKey = randomBytes(32);

const redacted = "[redacted]";

/**
 * A secret text. Logs, JSON, templates and inspection show `[redacted]`; only `reveal` returns the text. Two objects are
 * deeply equal exactly if their texts are.
 */
export class Secret {
  /** Keyed hash of the text: deep comparison compares it, because the text itself is private. */
  readonly digest: string;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    this.digest = createHmac("sha256", digestKey).update(text).digest("base64url");
  }

  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return redacted;
  }

  toJSON(): string {
    return redacted;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return redacted;
  }
}
