import { isAscii, isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { quote, refuse, ServiceError } from "../../domain/call/service-error.js";
import { isObject } from "../../lib/json-string.js";
import { checkJsonBounds, JsonSource, type SourceTexts } from "./json-scan.js";

/** `application/json` or any type that ends in `+json`, with any parameters. */
const jsonType = /^(?:application\/json|[\w!#$&^.+-]+\/[\w!#$&^.+-]+\+json)[ \t]*(?:;[^,]*)?$/i;

/** Throws ServiceError `unsupported_media_type` unless the request declares an uncompressed JSON body (GEN-6, SEC-5). */
export function checkMediaType({ headers }: IncomingMessage): void {
  const { "content-type": type, "content-encoding": encoding } = headers;
  if (type !== "application/json" && (type === undefined || !jsonType.test(type))) {
    const given = type === undefined ? "missing" : quote(type);
    const message = `The Content-Type must be application/json, but it is ${given}. With curl, add -H 'Content-Type: application/json'.`;
    throw new ServiceError("unsupported_media_type", message);
  }
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    const message = `The Content-Encoding of a request must be identity, but it is ${quote(encoding)}.`;
    throw new ServiceError("unsupported_media_type", message);
  }
}

/**
 * Parses the JSON object of a request body. Its bounds are checked before it is parsed (SEC-9), and keys that could
 * change a prototype are refused at every level (SEC-11). Throws ServiceError `invalid_json`, or
 * `invalid_type` when the body is JSON but not an object.
 */
export function parseJsonBody(body: Buffer, limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">): JsonObject {
  const text = jsonTextOf(body, limits);
  if (text.length === 0) throw new ServiceError("invalid_json", "The body is empty; a JSON object is needed.");
  const value = parse(text);
  // A forbidden key can be spelled literally or with escapes.
  if (text.includes("proto") || text.includes("\\u")) refuseForbiddenKeys(value);
  return JsonObject.ofBody(value, () => new JsonSource(text));
}

/** The text of JSON within the bounds, without a byte order mark. Throws ServiceError `invalid_json`. */
export function jsonTextOf(body: Buffer, limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">): string {
  const text = decode(withoutMark(body));
  checkBounds(text, limits);
  return text;
}

export function withoutMark(body: Buffer): Buffer {
  const hasByteOrderMark = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
  return hasByteOrderMark ? body.subarray(3) : body;
}

function checkBounds(text: string, limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">): void {
  if (!isSmall(text, limits.jsonDepthMax, limits.jsonTokensMax)) checkJsonBounds(text, limits);
}

/** Most bodies are ASCII, which is copied instead of decoded. */
export function decode(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString("latin1");
  if (isUtf8(bytes)) return bytes.toString("utf8");
  throw new ServiceError("invalid_json", "The body is not valid UTF-8.");
}

/**
 * Whether a text is certainly within the bounds because it is short and has few brackets, those in strings included. True
 * for nearly all bodies, and a fraction of the cost of a scan.
 */
function isSmall(text: string, depthMax: number, tokensMax: number): boolean {
  return text.length <= tokensMax && countUpTo(text, "{", depthMax) + countUpTo(text, "[", depthMax) <= depthMax;
}

/** Number of occurrences of a character; counts up to one more than `max`. */
function countUpTo(text: string, character: string, max: number): number {
  let count = 0;
  for (let at = text.indexOf(character); at !== -1 && count <= max; at = text.indexOf(character, at + 1)) count += 1;
  return count;
}

/** `offset`: position of the text in the body. */
export function parse(text: string, offset = 0): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser quotes the body in its message; only the position is passed on.
    const position = /at position (\d+)/.exec(String(error))?.[1];
    const where = position === undefined ? "" : ` (at position ${offset + Number(position)})`;
    throw new ServiceError("invalid_json", `The body is not valid JSON${where}.`, { cause: error });
  }
}

/** Throws for keys that could change a prototype, at every level. Recursion is safe: the depth is bounded. */
export function refuseForbiddenKeys(value: unknown): void {
  if (Array.isArray(value)) {
    for (const item of value) refuseForbiddenKeys(item);
  } else if (isObject(value)) {
    for (const [key, child] of Object.entries(value)) {
      const isForbidden =
        key === "__proto__" || (key === "constructor" && isObject(child) && Object.hasOwn(child, "prototype"));
      if (isForbidden) throw forbiddenKey(key);
      refuseForbiddenKeys(child);
    }
  }
}

export function forbiddenKey(key: string): ServiceError {
  return new ServiceError("invalid_json", `The key '${key}' is not allowed in a body.`);
}

/** Up to this many names are compared one after another, which is faster than a hash look-up. */
const fewNames = 32;

/** The source texts of a body, created on first use: most bodies need none. */
interface BodyText {
  readonly open: () => SourceTexts;
  source?: SourceTexts;
}

/**
 * One object of a request body and its path. Every reader returns undefined for a field that is absent or null
 * (GEN-7), throws ServiceError `invalid_type` with the exact `param` for another type, and never converts (GEN-8).
 */
export class JsonObject {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Names of its fields. Readers ask for many absent fields, and comparing a few names is the fastest way. */
  readonly names: readonly string[];
  readonly #body: BodyText;
  readonly #parent: JsonObject | null;
  /** Place in the parent: the field's name, and the index if the field is a list. */
  readonly #key: string;
  readonly #index: number | null;

  private constructor(
    fields: Readonly<Record<string, unknown>>,
    body: BodyText,
    parent: JsonObject | null,
    key: string,
    index: number | null,
  ) {
    this.fields = fields;
    this.names = Object.keys(fields);
    this.#body = body;
    this.#parent = parent;
    this.#key = key;
    this.#index = index;
  }

  /** `open` returns the source texts of the value; it is called at most once. */
  static ofBody(value: unknown, open: () => SourceTexts): JsonObject {
    if (isObject(value)) return new JsonObject(value, { open }, null, "", null);
    throw new ServiceError("invalid_type", `The body must be a JSON object, but it is ${nameOf(value)}.`);
  }

  /** Path of this object, e.g. `messages[0]`; empty for the body itself. Built for errors only. */
  get path(): string {
    if (this.#parent === null) return "";
    const path = this.#parent.pathOf(this.#key);
    return this.#index === null ? path : `${path}[${this.#index}]`;
  }

  /** Path of a field of this object. */
  pathOf(key: string): string {
    const { path } = this;
    return path === "" ? key : `${path}.${key}`;
  }

  /** The field's value without a check of its type; undefined when absent or null. */
  value(key: string): unknown {
    return this.#has(key) ? (this.fields[key] ?? undefined) : undefined;
  }

  /** Whether the object itself has the field: inherited fields do not count. */
  #has(key: string): boolean {
    if (this.names.length > fewNames) return Object.hasOwn(this.fields, key);
    for (const name of this.names) if (name === key) return true;
    return false;
  }

  string(key: string): string | undefined {
    const value = this.value(key);
    return value === undefined || typeof value === "string" ? value : wrongType(this.pathOf(key), "a string", value);
  }

  requiredString(key: string): string {
    return this.string(key) ?? missingField(this.pathOf(key));
  }

  boolean(key: string): boolean | undefined {
    const value = this.value(key);
    return value === undefined || typeof value === "boolean" ? value : wrongType(this.pathOf(key), "a boolean", value);
  }

  number(key: string): number | undefined {
    const value = this.value(key);
    return value === undefined || typeof value === "number" ? value : wrongType(this.pathOf(key), "a number", value);
  }

  int32(key: string): number | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : asInt32(value, this.pathOf(key));
  }

  /** Any integer, reduced to its lowest 64 bits: JSON.parse rounds the same digits equally each time (GEN-14). */
  int64(key: string): bigint | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : BigInt.asIntN(64, BigInt(asInteger(value, this.pathOf(key))));
  }

  object(key: string): JsonObject | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : this.#child(value, key, null);
  }

  requiredObject(key: string): JsonObject {
    return this.object(key) ?? missingField(this.pathOf(key));
  }

  /** The items without a check of their types, including nulls. */
  array(key: string): readonly unknown[] | undefined {
    const value = this.value(key);
    return value === undefined || Array.isArray(value) ? value : wrongType(this.pathOf(key), "an array", value);
  }

  objects(key: string): readonly JsonObject[] | undefined {
    return this.array(key)?.map((item, i) => this.#child(item, key, i));
  }

  strings(key: string): string[] | undefined {
    return this.array(key)?.map((item, i) => asString(item, `${this.pathOf(key)}[${i}]`));
  }

  /** A string or a list of strings, as a list. */
  stringOrStrings(key: string): string[] | undefined {
    const value = this.value(key);
    if (typeof value === "string") return [value];
    if (value === undefined || Array.isArray(value)) return this.strings(key);
    return wrongType(this.pathOf(key), "a string or an array of strings", value);
  }

  /** An object whose values are all of one type. Its keys are the caller's own, so errors name the map, not the key. */
  map<T>(key: string, read: (value: unknown, path: string) => T): Record<string, T> | undefined {
    const object = this.object(key);
    if (object === undefined) return undefined;
    return Object.fromEntries(Object.entries(object.fields).map(([name, value]) => [name, read(value, object.path)]));
  }

  /** The source text of an object, for fields that the contract carries as JSON text (PROTO-4). */
  objectAsText(key: string): string | undefined {
    if (this.object(key) === undefined) return undefined;
    this.#body.source ??= this.#body.open();
    return this.#body.source.textAt(this.pathOf(key));
  }

  /** Fields outside the contract by name, each as JSON; a deployment on an upstream server may forward them. */
  unknownFields(known: ReadonlySet<string>): Record<string, string> {
    const fields: Record<string, string> = {};
    for (const name of this.names) {
      if (!known.has(name)) fields[name] = JSON.stringify(this.fields[name]);
    }
    return fields;
  }

  #child(value: unknown, key: string, index: number | null): JsonObject {
    if (isObject(value)) return new JsonObject(value, this.#body, this, key, index);
    const path = this.pathOf(key);
    return wrongType(index === null ? path : `${path}[${index}]`, "an object", value);
  }
}

export function asString(value: unknown, path: string): string {
  return typeof value === "string" ? value : wrongType(path, "a string", value);
}

export function asNumber(value: unknown, path: string): number {
  return typeof value === "number" ? value : wrongType(path, "a number", value);
}

/** An integer that fits 32 bits; the range of the field is checked by the core. */
export function asInt32(value: unknown, path: string): number {
  const { int32Max } = fixedLimits;
  const number = typeof value === "number" && !Number.isFinite(value) ? value : asInteger(value, path);
  if (number > int32Max) {
    refuse("integer_above_max_value", path, `Invalid '${path}': at most ${int32Max} is possible, but got ${number}.`);
  }
  if (number < -int32Max - 1) {
    refuse("integer_below_min_value", path, `Invalid '${path}': ${number} is too small an integer.`);
  }
  // Negative zero is an integer, but prints as "-0".
  return number + 0;
}

function asInteger(value: unknown, path: string): number {
  return typeof value === "number" && Number.isInteger(value) ? value : wrongType(path, "an integer", value);
}

/** Throws the error for a value of another type than `expected`. */
export function wrongType(path: string, expected: string, value: unknown): never {
  refuse("invalid_type", path, `Invalid type for '${path}': expected ${expected}, but got ${nameOf(value)}.`);
}

export function missingField(path: string): never {
  refuse("missing_required_parameter", path, `Missing required parameter: '${path}'.`);
}

/** Throws the error for a value outside a closed list. */
export function unknownValue(path: string, value: string, supported: readonly string[]): never {
  const list = supported.map((name) => `'${name}'`).join(", ");
  refuse("invalid_value", path, `Invalid value ${quote(value)} for '${path}'. Supported values are: ${list}.`);
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object") return "an object";
  if (typeof value === "number") return Number.isInteger(value) ? "an integer" : "a decimal number";
  return `a ${typeof value}`;
}
