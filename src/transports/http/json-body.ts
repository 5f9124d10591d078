import { isAscii, isUtf8 } from "node:buffer";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { JsonObject } from "./json-object.js";

/**
 * Parses the JSON object of a request body. Its bounds are checked before it is parsed (SEC-9), and keys that could
 * change a prototype are refused at every level (SEC-11). Throws ServiceError `invalid_json`, or
 * `invalid_type` when the body is JSON but no object.
 */
export function parseJsonBody(body: Buffer, limits: JsonLimits): JsonObject {
  const bytes = hasByteOrderMark(body) ? body.subarray(3) : body;
  if (bytes.length === 0) throw new ServiceError("invalid_json", "The body is empty; a JSON object is needed.");
  const text = decode(bytes);
  if (!isPlainlySmall(text, maxOf(limits))) checkJsonBounds(bytes, limits);
  const value = parse(text);
  if (maySpellForbiddenKey(text)) refuseForbiddenKeys(value);
  return JsonObject.ofBody(value, text);
}

/** Most bodies are ASCII, which is copied instead of decoded. */
function decode(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString("latin1");
  if (isUtf8(bytes)) return bytes.toString("utf8");
  throw new ServiceError("invalid_json", "The body is not valid UTF-8.");
}

function hasByteOrderMark(body: Buffer): boolean {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
}

type JsonLimits = Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">;

function maxOf({ jsonDepthMax, jsonTokensMax }: JsonLimits): JsonMax {
  return { depth: jsonDepthMax, tokens: jsonTokensMax };
}

/** Refuses JSON that would become too many objects, by its bytes, before it is parsed (SEC-9). Throws ServiceError. */
export function checkJsonBounds(bytes: Buffer, limits: JsonLimits): void {
  const max = maxOf(limits);
  switch (scanJson(bytes, max)) {
    case "too_deep":
      throw new ServiceError("invalid_json", `The body is nested deeper than ${max.depth} levels.`);
    case "too_many_tokens":
      throw new ServiceError("invalid_json", `The body has more than ${max.tokens} JSON values, keys and brackets.`);
    case "ok":
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser quotes the body in its message; only the position is passed on.
    const position = /at position (\d+)/.exec(String(error))?.[1];
    const where = position === undefined ? "" : ` (at position ${position})`;
    throw new ServiceError("invalid_json", `The body is not valid JSON${where}.`, { cause: error });
  }
}

/** Whether the text can contain `__proto__` or `prototype`, literally or as an escape. */
function maySpellForbiddenKey(text: string): boolean {
  return text.includes("proto") || text.includes("\\u");
}

/** Recursion is safe: the depth is bounded. */
function refuseForbiddenKeys(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) refuseForbiddenKeys(item);
    return;
  }
  for (const [key, child] of Object.entries(value)) {
    const isForbidden = key === "__proto__" || (key === "constructor" && hasOwnPrototype(child));
    if (isForbidden) throw new ServiceError("invalid_json", `The key '${key}' is not allowed in a body.`);
    refuseForbiddenKeys(child);
  }
}

function hasOwnPrototype(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "prototype");
}

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

/** Result of scanning raw JSON bytes, before they are parsed. */
export type JsonScan = "ok" | "too_deep" | "too_many_tokens";

/** Bounds of a JSON text. */
export interface JsonMax {
  readonly depth: number;
  readonly tokens: number;
}

const space = 0x20;
const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/** Bytes of numbers, true, false and null, and of anything that the parser will refuse. */
const isScalarByte = new Uint8Array(256).fill(1);
for (const byte of [0x20, 0x09, 0x0a, 0x0d, 0x2c, 0x3a, quote, openBrace, closeBrace, openBracket, closeBracket]) {
  isScalarByte[byte] = 0;
}

/**
 * Measures the nesting and the tokens (brackets, keys and values) of JSON in one pass, without parsing it: creating
 * millions of small values would block the event loop. Syntax errors are left to the parser.
 */
export function scanJson(bytes: Buffer, max: JsonMax): JsonScan {
  let depth = 0;
  let tokens = 0;
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) {
      tokens += 1;
      at = afterString(bytes, at);
    } else if (isScalarByte[byte] === 1) {
      tokens += 1;
      at = afterScalar(bytes, at);
    } else {
      if (byte === openBrace || byte === openBracket) {
        depth += 1;
        tokens += 1;
        if (depth > max.depth) return "too_deep";
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        tokens += 1;
      }
      at += 1;
      while (bytes[at] === space) at += 1;
    }
    if (tokens > max.tokens) return "too_many_tokens";
  }
  return "ok";
}

/**
 * Whether a text is so short and has so few brackets, those in strings included, that scanJson would find nothing: true
 * for nearly all bodies, at a fraction of its cost.
 */
export function isPlainlySmall(text: string, max: JsonMax): boolean {
  return text.length <= max.tokens && countUpTo(text, "{", max.depth) + countUpTo(text, "[", max.depth) <= max.depth;
}

/** Occurrences of a character, at most one more than `max`. */
function countUpTo(text: string, character: string, max: number): number {
  let count = 0;
  for (let at = text.indexOf(character); at !== -1 && count <= max; at = text.indexOf(character, at + 1)) count += 1;
  return count;
}

/** `at` is the opening quote. A text without escapes is skipped by the native search, the rest byte by byte. */
function afterString(bytes: Buffer, at: number): number {
  const end = bytes.indexOf(quote, at + 1);
  if (end === -1) return bytes.length;
  if (bytes[end - 1] !== backslash) return end + 1;
  // The end of the first escape or later: an odd number of backslashes before a quote escapes it.
  let first = end;
  while (first - 1 > at && bytes[first - 1] === backslash) first -= 1;
  let next = first;
  while (next < bytes.length && bytes[next] !== quote) next += bytes[next] === backslash ? 2 : 1;
  return Math.min(next + 1, bytes.length);
}

function afterScalar(bytes: Buffer, at: number): number {
  let end = at + 1;
  while (end < bytes.length && isScalarByte[bytes[end] ?? 0] === 1) end += 1;
  return end;
}
