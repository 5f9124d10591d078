import { isObject } from "../../../lib/json-string.js";
import { parseJson } from "../protocol/upstream-failure.js";

/** Members of a chunk that change from one to the next and have no other effect than the count of output tokens. */
const numbers = /("(?:created|completion_tokens|total_tokens)":\s*)(\d+)/g;
/** Templates in a row that were of little use: more are a sign that the chunks of a stream have no common form. */
const templatesMax = 16;
const usefulMatches = 8;
/** Backslashes, and control characters, of which JSON strings contain none below U+0020. */
const needsParser = /[\\\p{Cc}]/u;

/**
 * Reads chunks that differ from an earlier one only in their text, without JSON.parse. The form of such chunks is learned:
 * a chunk that was parsed gives the literal parts around its text and its numbers, which are compared with the next chunks.
 * A form is used only after a probe has shown that its holes are the text of the choice and the count of output tokens.
 */
export class TextTemplate {
  /** What the text follows. */
  #prefix: string | null = null;
  /** The literal parts after the text; between each two is a number. */
  #parts: readonly string[] = [];
  /** The number that is `usage.completion_tokens`; -1: none. */
  #tokensHole = -1;
  #learned = 0;
  /** Matches of the present template. */
  #matches = 0;
  /** Count of output tokens of the last match; null: the chunk has none. */
  outTokens: number | null = null;

  /** The text of a chunk in the learned form; null: it must be parsed. */
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

  /** Learns the form of a chunk that has an effect by its text alone. */
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
    // Pieces come in threes: what precedes a number's name, its name, the number.
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

/** Whether other values in the holes change the text and the counts of the chunk, and nothing else. */
function probeShows(prefix: string, parts: readonly string[], tokensHole: number, chunk: unknown): boolean {
  const rest = parts.map((part, i) => (i === parts.length - 1 ? part : `${part}${i === tokensHole ? 4_242 : 17}`));
  const probe = parseJson(`${prefix}probe${rest.join("")}`);
  const text = textOf(chunk);
  if (text === null || textOf(probe) !== "probe" || (tokensHole !== -1 && tokensOf(probe) !== 4_242)) return false;
  return isSame(probe, chunk, { probe: "probe", text, left: 1 });
}

const numberNames = new Set(["created", "completion_tokens", "total_tokens"]);

/** Whether two values are the same, but for numbers of these names and one text. */
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
