import type { ServiceLimits } from "../../contract/limits.js";
import { ServiceError } from "../../domain/call/service-error.js";

/** Codes of characters that end a number, true, false or null: whitespace, brackets, quotes, commas and colons. */
export const endsScalar = new Uint8Array(256);
for (const character of ' \t\n\r,:"{}[]') endsScalar[character.charCodeAt(0)] = 1;
export const isWhitespace = new Uint8Array(256);
for (const character of " \t\n\r") isWhitespace[character.charCodeAt(0)] = 1;
const [space, quote, openBrace, closeBrace, openBracket, closeBracket] = [...' "{}[]'].map((c) => c.charCodeAt(0));

/** Throws ServiceError `invalid_json`, before JSON is parsed, if it is too deep or has too many tokens (SEC-9). */
export function checkJsonBounds(
  text: string,
  { jsonDepthMax, jsonTokensMax }: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">,
): void {
  const result = scanJson(text, jsonDepthMax, jsonTokensMax);
  if (result === "too_deep") throw tooDeep(jsonDepthMax);
  if (result === "too_many_tokens") throw tooManyTokens(jsonTokensMax);
}

export function tooDeep(max: number): ServiceError {
  return new ServiceError("invalid_json", `The body is nested deeper than ${max} levels.`);
}

export function tooManyTokens(max: number): ServiceError {
  return new ServiceError("invalid_json", `The body has more than ${max} JSON values, keys and brackets.`);
}

/**
 * Counts the nesting depth and the tokens (brackets, keys and values) of JSON without parsing it, because creating millions
 * of small values would block the event loop. Syntax errors are left to the parser. Takes linear time. UTF-8 that was
 * decoded as Latin-1 gives the same result.
 */
export function scanJson(text: string, depthMax: number, tokensMax: number): "ok" | "too_deep" | "too_many_tokens" {
  let depth = 0;
  let tokens = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      tokens += 1;
      at = endOfString(text, at);
    } else if (endsScalar[code] !== 1) {
      tokens += 1;
      at = endOfScalar(text, at);
    } else {
      if (code === openBrace || code === openBracket) {
        depth += 1;
        tokens += 1;
        if (depth > depthMax) return "too_deep";
      } else if (code === closeBrace || code === closeBracket) {
        depth -= 1;
        tokens += 1;
      }
      at += 1;
      while (text.charCodeAt(at) === space) at += 1;
    }
    if (tokens > tokensMax) return "too_many_tokens";
  }
  return "ok";
}

/** Position after a string whose opening quote is at `at`. An odd number of backslashes before a quote escapes it. */
function endOfString(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let first = end;
    while (first - 1 > at && text[first - 1] === "\\") first -= 1;
    if ((end - first) % 2 === 0) return end + 1;
  }
  return text.length;
}

function endOfScalar(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && endsScalar[text.charCodeAt(end)] !== 1) end += 1;
  return end;
}

/** Position of a value in the text: `[start, end)`. */
type Span = readonly [start: number, end: number];

/** Source texts of the values of JSON, by their paths. */
export interface SourceTexts {
  textAt(path: string): string | undefined;
}

/**
 * Finds the source text of single values in JSON. Parsing a schema and serializing it again would change numbers beyond
 * 2^53 and the order of keys. The text must be valid JSON. One pass over the text serves all values.
 */
export class JsonSource implements SourceTexts {
  readonly #text: string;
  /** End of each object and array, by its start. */
  readonly #ends: ReadonlyMap<number, number>;
  /** Members or items of each container on a requested path, by the container's start. */
  readonly #children = new Map<number, ReadonlyMap<string, Span>>();

  constructor(text: string) {
    this.#text = text;
    this.#ends = endsOfContainers(text);
  }

  /**
   * The text of the value at a path such as `tools[1].function.parameters`; undefined when there is none. No key of the
   * path may contain a dot or a bracket. Of a repeated key the last one counts, as it does for JSON.parse.
   */
  textAt(path: string): string | undefined {
    let span: Span | undefined = [this.#skipWhitespace(0), this.#text.length];
    for (const key of path.split(/[.[\]]+/)) {
      if (key === "") continue;
      span = this.#childrenAt(span[0]).get(key);
      if (span === undefined) return undefined;
    }
    return this.#text.slice(...span);
  }

  #childrenAt(start: number): ReadonlyMap<string, Span> {
    const found = this.#children.get(start);
    if (found !== undefined) return found;
    const text = this.#text;
    const children = new Map<string, Span>();
    this.#children.set(start, children);
    const isObject = text.charCodeAt(start) === openBrace;
    const containerEnd = this.#ends.get(start);
    if (containerEnd === undefined) return children;
    const last = containerEnd - 1;
    let at = this.#skipWhitespace(start + 1);
    while (at < last) {
      let key = String(children.size);
      if (isObject) {
        const keyEnd = endOfString(text, at);
        const name = text.slice(at + 1, keyEnd - 1);
        key = name.includes("\\") ? JSON.parse(text.slice(at, keyEnd)) : name;
        at = this.#skipWhitespace(this.#skipWhitespace(keyEnd) + 1);
      }
      const end = this.#endOf(at);
      children.set(key, [at, end]);
      at = this.#skipWhitespace(end);
      if (at < last) at = this.#skipWhitespace(at + 1);
    }
    return children;
  }

  /** End of the value that begins at `at`. */
  #endOf(at: number): number {
    if (this.#text.charCodeAt(at) === quote) return endOfString(this.#text, at);
    return this.#ends.get(at) ?? endOfScalar(this.#text, at);
  }

  #skipWhitespace(from: number): number {
    let at = from;
    while (isWhitespace[this.#text.charCodeAt(at)] === 1) at += 1;
    return at;
  }
}

/** End of each object and array of JSON, by its start. */
function endsOfContainers(text: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  const open: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at) - 1;
    else if (code === openBrace || code === openBracket) open.push(at);
    else if (code === closeBrace || code === closeBracket) ends.set(open.pop() ?? 0, at + 1);
  }
  return ends;
}
