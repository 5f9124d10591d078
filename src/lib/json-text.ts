import { isPlain } from "./json-string.js";

/**
 * JSON that is put together piece by piece and knows whether all of it is ASCII: then its length in bytes is known without
 * a look at the whole, for which the pieces would have to be copied into one text first.
 */
export class JsonText {
  #text = "";
  #isAscii = true;

  get text(): string {
    return this.#text;
  }

  /** False also where nobody has looked. */
  get isAscii(): boolean {
    return this.#isAscii;
  }

  /** Adds JSON that is ASCII. */
  add(json: string): this {
    this.#text += json;
    return this;
  }

  /** Adds a text as a JSON string. */
  addString(text: string): this {
    if (isPlain(text)) return this.add(`"${text}"`);
    return this.addUnknown(JSON.stringify(text));
  }

  /** Adds JSON of which nothing is known. */
  addUnknown(json: string): this {
    this.#isAscii = false;
    return this.add(json);
  }
}
