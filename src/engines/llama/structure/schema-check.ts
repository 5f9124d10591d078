import { type Context, createContext, Script } from "node:vm";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { LruCache } from "./lru-cache.js";
import { itemSchemas } from "./read-compounds.js";
import {
  isSchema,
  type Schema,
  type SchemaDocument,
  type SchemaMode,
  type SchemaObject,
  SchemaUnsupported,
} from "./schema-document.js";
import { planSchema, type SchemaPlan } from "./schema-plan.js";
import { formatNames, stringFormat } from "./string-grammar.js";

/** A check that takes longer is given up: a schema that refers to itself can make one value very costly. */
const checkMs = 1_000;

type Check = (value: unknown) => string | null;

const checks = new LruCache<Check>();

/**
 * Compiles a check of finished values against a schema, in lenient mode without the keywords that its grammar gave up.
 * The check returns null for a valid value and otherwise what is wrong with it. Throws SchemaUnsupported where
 * `GrammarBuilder.addSchema` does.
 */
export function compileCheck(schema: unknown, mode: SchemaMode): Check {
  return checks.get([mode, schema], () => newCheck(schema, mode));
}

function newCheck(schema: unknown, mode: SchemaMode): Check {
  const validate = compiled(checkedSchema(planSchema(schema, mode)));
  return (value) => {
    const isValid = validateInTime(validate, value);
    if (isValid === null) return `it could not be checked in ${checkMs} ms`;
    const [error] = validate.errors ?? [];
    return isValid ? null : `${error?.instancePath ?? ""} ${error?.message ?? "is not valid"}`.trim();
  };
}

function compiled(schema: SchemaObject): ValidateFunction {
  try {
    return newAjv().compile(schema);
  } catch (error) {
    // Ajv compiles references inside of each other.
    if (!(error instanceof RangeError)) throw error;
    throw new SchemaUnsupported("", "its references form too long a chain for results to be checked.");
  }
}

function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    validateSchema: false,
    // Inherited names such as `constructor` are no properties of a value.
    ownProperties: true,
    inlineRefs: false,
    addUsedSchema: false,
    logger: false,
  });
  useJsonEquality(ajv);
  for (const name of formatNames) {
    const format = stringFormat(name);
    if (format !== null) ajv.addFormat(name, format.test);
  }
  return ajv;
}

/** Where checks run, so that they can be stopped. Made once, for it costs more than most checks. */
let timed: { readonly script: Script; readonly sandbox: Context } | null = null;

/** Null when it took too long, or needed more stack than there is. */
function validateInTime(validate: ValidateFunction, value: unknown): boolean | null {
  timed ??= { script: new Script("isValid = validate(value)"), sandbox: createContext({}) };
  const { script, sandbox } = timed;
  Object.assign(sandbox, { validate, value, isValid: null });
  try {
    script.runInContext(sandbox, { timeout: checkMs });
    return sandbox["isValid"] === true;
  } catch (error) {
    if (isTimeoutOrOverflow(error)) return null;
    throw error;
  } finally {
    Object.assign(sandbox, { validate: null, value: null });
  }
}

/** The script's own errors belong to the realm of its context, so that their classes are not ours. */
function isTimeoutOrOverflow(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const isTimeout = "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
  return isTimeout || ("name" in error && error.name === "RangeError");
}

const plainKeywords = [
  "type",
  "enum",
  "const",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "minItems",
  "maxItems",
  "minProperties",
  "maxProperties",
];

/**
 * The schema as its grammar enforces it: only keywords that are enforced, none that was given up, in the spelling of
 * draft 2020-12 and with every reference's target under `$defs`.
 */
export function checkedSchema({ document }: SchemaPlan): SchemaObject {
  const copy = new SchemaCopy(document);
  return copy.whole();
}

class SchemaCopy {
  readonly #document: SchemaDocument;
  readonly #targets = new Map<SchemaObject, string>();
  readonly #uncopied: SchemaObject[] = [];

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  whole(): SchemaObject {
    const $ref = this.#refer(this.#document.root);
    const definitions: Record<string, unknown> = {};
    for (let next = this.#uncopied.pop(); next !== undefined; next = this.#uncopied.pop()) {
      definitions[this.#targets.get(next) ?? ""] = this.#inside(next);
    }
    return { ...$ref, $defs: definitions };
  }

  /** A reference to a copy that stands under `$defs`. */
  #refer(schema: Schema): SchemaObject {
    if (typeof schema === "boolean") return schema ? {} : { not: {} };
    let name = this.#targets.get(schema);
    if (name === undefined) {
      name = `s${this.#targets.size}`;
      this.#targets.set(schema, name);
      this.#uncopied.push(schema);
    }
    return { $ref: `#/$defs/${name}` };
  }

  #copy(schema: Schema): Schema {
    if (typeof schema === "boolean") return schema;
    return this.#targets.has(schema) ? this.#refer(schema) : this.#inside(schema);
  }

  #inside(schema: SchemaObject): SchemaObject {
    const document = this.#document;
    const out: Record<string, unknown> = {};
    for (const keyword of plainKeywords) {
      const value = document.read(schema, keyword);
      if (value !== undefined) out[keyword] = value;
    }
    if (Array.isArray(out["enum"]) && out["enum"].length === 0) return { not: {} };
    const format = document.read(schema, "format");
    if (typeof format === "string" && stringFormat(format) !== null) out["format"] = format;
    const parts: Schema[] = (document.readSchemas(schema, "allOf") ?? []).map((part) => this.#copy(part));
    const target = document.resolveReference(schema);
    if (target !== null) parts.push(this.#refer(target));
    if (parts.length > 0) out["allOf"] = parts;
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = document.readSchemas(schema, keyword);
      if (branches === null) continue;
      const copies = branches.map((branch) => this.#copy(branch));
      // Reached in lenient mode only: a grammar lets a value match several branches.
      if (keyword === "oneOf") out["allOf"] = [...parts, { anyOf: copies }];
      else out[keyword] = copies;
    }
    this.#copyItems(schema, out);
    this.#copyProperties(schema, out);
    return out;
  }

  #copyItems(schema: SchemaObject, out: Record<string, unknown>): void {
    const { prefix, rest } = itemSchemas(this.#document, schema);
    if (prefix.length > 0) out["prefixItems"] = prefix.map((item) => this.#copy(item));
    if (rest !== null) out["items"] = this.#copy(rest);
  }

  #copyProperties(schema: SchemaObject, out: Record<string, unknown>): void {
    const document = this.#document;
    const properties = document.readProperties(schema).filter(([name]) => name !== "__proto__");
    if (properties.length > 0) {
      out["properties"] = Object.fromEntries(properties.map(([name, part]) => [name, this.#copy(part)]));
    }
    const required = document.readNames(schema, "required").filter((name) => name !== "__proto__");
    if (required.length > 0) out["required"] = required;
    const additional = document.read(schema, "additionalProperties");
    if (isSchema(additional)) out["additionalProperties"] = this.#copy(additional);
  }
}

/** Whether two values of JSON are equal: objects in any order of their members, 0 and -0 as one number. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => jsonEqual(item, b[i]));
  }
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && jsonEqual(memberOf(a, name), memberOf(b, name)))
  );
}

function memberOf(object: object, name: string): unknown {
  return (object as Readonly<Record<string, unknown>>)[name];
}

/**
 * Gives a validator our own comparison. Its own takes a member called `toString` or `valueOf` for the method and throws,
 * and what a member is called is up to whoever writes the schema.
 */
export function useJsonEquality(ajv: Ajv2020): Ajv2020 {
  for (const keyword of ["const", "enum", "uniqueItems"]) ajv.removeKeyword(keyword);
  ajv.addKeyword({ keyword: "const", validate: jsonEqual });
  ajv.addKeyword({
    keyword: "enum",
    schemaType: "array",
    validate: (allowed: readonly unknown[], value: unknown) => allowed.some((each) => jsonEqual(each, value)),
  });
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    validate: (wanted: boolean, items: readonly unknown[]) => !wanted || areUnique(items),
  });
  return ajv;
}

function areUnique(items: readonly unknown[]): boolean {
  const isPlain = items.every((item) => typeof item !== "object" || item === null);
  if (isPlain) return new Set(items).size === items.length;
  return items.every((item, i) => items.slice(0, i).every((before) => !jsonEqual(item, before)));
}
