import { isObject } from "../../../lib/json-string.js";
import { parseJson } from "../protocol/upstream-failure.js";

/** Number members that may differ between chunks of one form; only the count of output tokens has an effect. */
const numbers = /("(?:created|completion_tokens|total_tokens)":\s*)(\d+)/g;
/** Maximum templates in a row that matched few chunks: then the chunks of a stream seem to have no common form. */
const templatesMax = 16;
const usefulMatches = 8;
/** Characters for which the JSON parser is used: backslashes, and control characters, which JSON forbids below U+0020. */
const needsParser = /[\\\p{Cc}]/u;

/**
 * Reads chunks that differ from an earlier one only in their text, without JSON.parse. A parsed chunk is made a template:
 * the literal parts around its text and its numbers, which are compared with the next chunks. A template is used only if
 * a probe, a chunk with other values in these places, parses to the same chunk with another text and count of output tokens.
 */
export class TextTemplate {
  /** The literal part before the text; null: no template. */
  #prefix: string | null = null;
  /** The literal parts after the text; a number is between each two of them. */
  #parts: readonly string[] = [];
  /** Index of the number that is `usage.completion_tokens`; -1: none. */
  #tokensHole = -1;
  #learned = 0;
  /** Number of matches of the current template. */
  #matches = 0;
  /** Count of output tokens of the last match; null: the chunk has none. */
  outTokens: number | null = null;

  /** The text of a chunk that matches the template; null: the chunk must be parsed. */
  match(data: string): string | null {
    const prefix = this.#prefix;
    if (prefix === null || !data.startsWith(prefix)) return null;
    const textEnd = data.indexOf('"', prefix.length);
    if (textEnd === -1) return null;
    const text = data.slice(prefix.length, textEnd);
    if (needsParser.test(text) || !this.#matchesRest(data, textEnd)) return null;
    this.#matches += 1;
    return text;
  }

  #matchesRest(data: string, from: number): boolean {
    let at = from;
    this.outTokens = null;
    for (let i = 0; i < this.#parts.length; i++) {
      const part = this.#parts[i] ?? "";
      if (!data.startsWith(part, at)) return false;
      at += part.length;
      if (i === this.#parts.length - 1) break;
      const numberAt = at;
      while (isDigit(data.charCodeAt(at))) at += 1;
      // JSON has no number without digits or with a leading zero; counts have fewer digits.
      if (at === numberAt || at - numberAt > 15 || (data.charCodeAt(numberAt) === 48 && at - numberAt > 1))
        return false;
      if (i === this.#tokensHole) this.outTokens = Number(data.slice(numberAt, at));
    }
    return at === data.length;
  }

  /** Makes a template of a chunk whose text and usage alone have an effect. */
  learn(data: string, chunk: unknown): void {
    if (this.#matches >= usefulMatches) this.#learned = 0;
    if (this.#learned >= templatesMax) return;
    this.#learned += 1;
    this.forget();
    const text = textOf(chunk);
    if (text === null || text === "") return;
    const literal = JSON.stringify(text);
    for (const key of ['"content":', '"content": ', '"text":', '"text": ']) {
      const at = data.indexOf(key + literal);
      if (at === -1) continue;
      const textAt = at + key.length + 1;
      this.#use(data.slice(0, textAt), data.slice(textAt + literal.length - 2), chunk);
      return;
    }
  }

  forget(): void {
    this.#prefix = null;
    this.#matches = 0;
  }

  #use(prefix: string, rest: string, chunk: unknown): void {
    const pieces = rest.split(numbers);
    const parts: string[] = [];
    let literal = "";
    let tokensHole = -1;
    // `split` returns groups of three: the text before a number's name, the name, the number.
    for (let i = 0; i < pieces.length; i += 3) {
      literal += pieces[i] ?? "";
      const name = pieces[i + 1];
      if (name === undefined) break;
      if (name.startsWith('"completion_tokens"')) tokensHole = parts.length;
      parts.push(literal + name);
      literal = "";
    }
    parts.push(literal);
    if (!probeShows(prefix, parts, tokensHole, chunk)) return;
    this.#prefix = prefix;
    this.#parts = parts;
    this.#tokensHole = tokensHole;
  }
}

/** Whether other values in the variable places of the template change only the text and the counts of the chunk. */
function probeShows(prefix: string, parts: readonly string[], tokensHole: number, chunk: unknown): boolean {
  const rest = parts.map((part, i) => (i === parts.length - 1 ? part : `${part}${i === tokensHole ? 4_242 : 17}`));
  const probe = parseJson(`${prefix}probe${rest.join("")}`);
  const text = textOf(chunk);
  if (text === null || textOf(probe) !== "probe" || (tokensHole !== -1 && tokensOf(probe) !== 4_242)) return false;
  return isSame(probe, chunk, { probe: "probe", text, left: 1 });
}

const numberNames = new Set(["created", "completion_tokens", "total_tokens"]);

/** Whether two values are equal except for the numbers in `numberNames` and one text. */
function isSame(
  a: unknown,
  b: unknown,
  texts: { readonly probe: string; readonly text: string; left: number },
): boolean {
  if (Array.isArray(a))
    return Array.isArray(b) && a.length === b.length && a.every((value, i) => isSame(value, b[i], texts));
  if (!isObject(a) || !isObject(b)) {
    if (a === texts.probe && b === texts.text && texts.left > 0) {
      texts.left -= 1;
      return true;
    }
    return a === b;
  }
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => {
      const isNumber = numberNames.has(name) && typeof a[name] === "number" && typeof b[name] === "number";
      return isNumber || (Object.hasOwn(b, name) && isSame(a[name], b[name], texts));
    })
  );
}

function tokensOf(chunk: unknown): unknown {
  const usage = isObject(chunk) ? chunk["usage"] : null;
  return isObject(usage) ? usage["completion_tokens"] : null;
}

/** The text of the only choice. */
function textOf(chunk: unknown): string | null {
  const choices = isObject(chunk) ? chunk["choices"] : null;
  const choice: unknown = Array.isArray(choices) && choices.length === 1 ? choices[0] : null;
  if (!isObject(choice)) return null;
  const delta = choice["delta"];
  const text = isObject(delta) ? delta["content"] : choice["text"];
  return typeof text === "string" ? text : null;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
