import type { Logger } from "../../domain/call/ports.js";
import type { JsonObject } from "./json-object.js";

const namesMax = 1_000;
const nameCharsMax = 64;

/** Unknown fields are ignored (DEC-9); each name is logged once, so that an operator can see what clients miss. */
export class UnknownFields {
  readonly #log: Logger;
  readonly #seen = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  note(body: JsonObject, known: ReadonlySet<string>, path: string): void {
    for (const name of body.names) {
      if (known.has(name) || this.#seen.size >= namesMax) continue;
      const field = name.slice(0, nameCharsMax);
      if (this.#seen.has(field)) continue;
      this.#seen.add(field);
      this.#log.info({ field, path }, "unknown request field ignored");
    }
  }
}
