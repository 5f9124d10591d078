import { fixedLimits } from "../../contract/limits.js";
import { quote, ServiceError } from "../../domain/call/service-error.js";
import { JsonSource } from "./json-source.js";

/** Integers that protobuf's int32 can hold. */
const int32Min = -fixedLimits.int32Max - 1;
/** Up to this many names are compared one by one, which is faster than a look-up. */
const fewNames = 32;

/**
 * One object of a request body and its path. Every reader returns undefined for a field that is absent or null
 * (GEN-7), throws ServiceError `invalid_type` with the exact `param` for another type, and never converts (GEN-8).
 */
export class JsonObject {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Names of its fields. Readers ask for many absent fields, and comparing a few names is the fastest way. */
  readonly names: readonly string[];
  readonly #parent: JsonObject | null;
  /** In the parent: the field's name, and the index in its list. */
  readonly #key: string;
  readonly #index: number | null;
  readonly #source: JsonSource;

  private constructor(
    fields: Readonly<Record<string, unknown>>,
    source: JsonSource,
    parent: JsonObject | null,
    key: string,
    index: number | null,
  ) {
    this.fields = fields;
    this.names = Object.keys(fields);
    this.#source = source;
    this.#parent = parent;
    this.#key = key;
    this.#index = index;
  }

  /** `text` is what the value was parsed from. */
  static ofBody(value: unknown, text: string): JsonObject {
    if (isObject(value)) return new JsonObject(value, new JsonSource(text), null, "", null);
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

  /** The field as it is; undefined when absent or null. */
  value(key: string): unknown {
    return this.#has(key) ? (this.fields[key] ?? undefined) : undefined;
  }

  /** Own fields only. */
  #has(key: string): boolean {
    if (this.names.length > fewNames) return Object.hasOwn(this.fields, key);
    for (const name of this.names) if (name === key) return true;
    return false;
  }

  string(key: string): string | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "string") return value;
    throw wrongType(this.pathOf(key), "a string", value);
  }

  requiredString(key: string): string {
    return this.string(key) ?? this.#missing(key);
  }

  boolean(key: string): boolean | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "boolean") return value;
    throw wrongType(this.pathOf(key), "a boolean", value);
  }

  number(key: string): number | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "number") return value;
    throw wrongType(this.pathOf(key), "a number", value);
  }

  int32(key: string): number | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : asInt32(value, this.pathOf(key));
  }

  /** Any integer, reduced to 64 bits in a fixed way: what JSON.parse rounded is rounded equally each time (GEN-14). */
  int64(key: string): bigint | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    return BigInt.asIntN(64, BigInt(asInteger(value, this.pathOf(key))));
  }

  object(key: string): JsonObject | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : this.#child(value, key, null);
  }

  requiredObject(key: string): JsonObject {
    return this.object(key) ?? this.#missing(key);
  }

  /** The items as they are, nulls included. */
  array(key: string): readonly unknown[] | undefined {
    const value = this.value(key);
    if (value === undefined || Array.isArray(value)) return value;
    throw wrongType(this.pathOf(key), "an array", value);
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
    if (value === undefined) return undefined;
    if (typeof value === "string") return [value];
    if (Array.isArray(value)) return this.strings(key);
    throw wrongType(this.pathOf(key), "a string or an array of strings", value);
  }

  /** An object whose values are all of one type. Its keys are the caller's own, so errors name the map, not the key. */
  map<T>(key: string, read: (value: unknown, path: string) => T): Record<string, T> | undefined {
    const object = this.object(key);
    if (object === undefined) return undefined;
    return Object.fromEntries(Object.entries(object.fields).map(([name, value]) => [name, read(value, object.path)]));
  }

  /** The JSON text of the field as it came, for what the contract carries as text (PROTO-4). It must be an object. */
  objectAsText(key: string): string | undefined {
    return this.object(key) === undefined ? undefined : this.#source.textAt(this.pathOf(key));
  }

  #child(value: unknown, key: string, index: number | null): JsonObject {
    if (isObject(value)) return new JsonObject(value, this.#source, this, key, index);
    const path = this.pathOf(key);
    throw wrongType(index === null ? path : `${path}[${index}]`, "an object", value);
  }

  #missing(key: string): never {
    throw missingField(this.pathOf(key));
  }
}

export function asString(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  throw wrongType(path, "a string", value);
}

export function asNumber(value: unknown, path: string): number {
  if (typeof value === "number") return value;
  throw wrongType(path, "a number", value);
}

/** An integer that fits 32 bits; the range of the field is checked by the core. */
export function asInt32(value: unknown, path: string): number {
  const number = typeof value === "number" && !Number.isFinite(value) ? value : asInteger(value, path);
  if (number > fixedLimits.int32Max) {
    throw new ServiceError(
      "integer_above_max_value",
      `Invalid '${path}': at most ${fixedLimits.int32Max} is possible, but got ${number}.`,
      { param: path },
    );
  }
  if (number < int32Min) {
    throw new ServiceError("integer_below_min_value", `Invalid '${path}': ${number} is too small an integer.`, {
      param: path,
    });
  }
  // Negative zero is an integer, but prints as "-0".
  return number + 0;
}

function asInteger(value: unknown, path: string): number {
  if (typeof value === "number" && Number.isInteger(value)) return value;
  throw wrongType(path, "an integer", value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function wrongType(path: string, expected: string, value: unknown): ServiceError {
  return new ServiceError(
    "invalid_type",
    `Invalid type for '${path}': expected ${expected}, but got ${nameOf(value)}.`,
    {
      param: path,
    },
  );
}

export function missingField(path: string): ServiceError {
  return new ServiceError("missing_required_parameter", `Missing required parameter: '${path}'.`, { param: path });
}

/** The error for a value outside a closed list. */
export function unknownValue(path: string, value: string, supported: readonly string[]): ServiceError {
  return new ServiceError(
    "invalid_value",
    `Invalid value ${quote(value)} for '${path}'. Supported values are: ${supported.map((v) => `'${v}'`).join(", ")}.`,
    { param: path },
  );
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  switch (typeof value) {
    case "object":
      return "an object";
    case "number":
      return Number.isInteger(value) ? "an integer" : "a decimal number";
    default:
      return `a ${typeof value}`;
  }
}
