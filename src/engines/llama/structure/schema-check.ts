import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { RanTooLong, runBounded } from "../../../lib/bounded-run.js";
import { comparable } from "./keywords.js";
import { LruCache } from "./lru-cache.js";
import {
  isSchema,
  type Schema,
  type SchemaDocument,
  type SchemaMode,
  type SchemaObject,
  SchemaUnsupported,
} from "./schema-document.js";
import { planSchema } from "./schema-plan.js";
import { itemSchemas, unsafeName } from "./shapes.js";
import { formats } from "./string-grammar.js";

/** Time limit of one check: with a schema that refers to itself, the check of one value can take very long. */
const checkMs = 1_000;

type Check = (value: unknown) => string | null;

const checks = new LruCache<Check>();

/**
 * Compiles a check of finished values against a schema, in lenient mode without the keywords that its grammar gave up.
 * The check returns null for a valid value and otherwise a description of the fault. Throws SchemaUnsupported for the
 * schemas for which `GrammarBuilder.addSchema` throws it.
 */
export function compileCheck(schema: unknown, mode: SchemaMode): Check {
  return checks.get([mode, schema], () => {
    const validate = compiled(enforcedSchema(planSchema(schema, mode).document));
    return (value) => {
      try {
        if (runBounded(() => validate(value), checkMs)) return null;
      } catch (thrown) {
        if (thrown instanceof RanTooLong || isStackOverflow(thrown)) return `it could not be checked in ${checkMs} ms`;
        throw thrown;
      }
      const [error] = validate.errors ?? [];
      return `${error?.instancePath ?? ""} ${error?.message ?? "is not valid"}`.trim();
    };
  });
}

/** Checks the name, because an error of the sandbox's realm is not an instance of our RangeError. */
function isStackOverflow(thrown: unknown): boolean {
  return typeof thrown === "object" && thrown !== null && "name" in thrown && thrown.name === "RangeError";
}

function compiled(schema: SchemaObject): ValidateFunction {
  const ajv = new Ajv2020({
    strict: false,
    validateSchema: false,
    // Inherited names such as `constructor` are not properties of a value.
    ownProperties: true,
    inlineRefs: false,
    addUsedSchema: false,
    logger: false,
  });
  useJsonEquality(ajv);
  for (const [name, { test }] of formats) ajv.addFormat(String(name), test);
  try {
    return ajv.compile(schema);
  } catch (error) {
    // Ajv compiles references recursively.
    if (!(error instanceof RangeError)) throw error;
    throw new SchemaUnsupported("", "its references form too long a chain for results to be checked.");
  }
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
 * The schema as its grammar enforces it: only keywords that are enforced and were not given up, in the spelling of draft
 * 2020-12 and with every reference's target under `$defs`.
 */
function enforcedSchema(document: SchemaDocument): SchemaObject {
  const targets = new Map<SchemaObject, string>();
  const uncopied: SchemaObject[] = [];

  const refer = (schema: Schema): SchemaObject => {
    if (typeof schema === "boolean") return schema ? {} : { not: {} };
    let name = targets.get(schema);
    if (name === undefined) {
      name = `s${targets.size}`;
      targets.set(schema, name);
      uncopied.push(schema);
    }
    return { $ref: `#/$defs/${name}` };
  };

  const copy = (schema: Schema): Schema => {
    if (typeof schema === "boolean") return schema;
    return targets.has(schema) ? refer(schema) : inside(schema);
  };

  const inside = (schema: SchemaObject): SchemaObject => {
    const out: Record<string, unknown> = {};
    for (const keyword of plainKeywords) {
      const value = document.read(schema, keyword);
      if (value !== undefined) out[keyword] = value;
    }
    if (Array.isArray(out["enum"]) && out["enum"].length === 0) return { not: {} };
    const format = document.read(schema, "format");
    if (formats.has(format)) out["format"] = format;
    const parts: Schema[] = (document.readSchemas(schema, "allOf") ?? []).map(copy);
    const target = document.resolveReference(schema);
    if (target !== null) parts.push(refer(target));
    const anyOf = document.readSchemas(schema, "anyOf");
    if (anyOf !== null) out["anyOf"] = anyOf.map(copy);
    // Only lenient mode keeps `oneOf`. It is checked as `anyOf`: the grammar allows values that match several branches.
    const oneOf = document.readSchemas(schema, "oneOf");
    if (oneOf !== null) parts.push({ anyOf: oneOf.map(copy) });
    if (parts.length > 0) out["allOf"] = parts;
    const { prefix, rest } = itemSchemas(document, schema);
    if (prefix.length > 0) out["prefixItems"] = prefix.map(copy);
    if (rest !== null) out["items"] = copy(rest);
    const properties = document.readProperties(schema).filter(([name]) => name !== unsafeName);
    if (properties.length > 0) out["properties"] = Object.fromEntries(properties.map(([n, part]) => [n, copy(part)]));
    const required = document.readNames(schema, "required").filter((name) => name !== unsafeName);
    if (required.length > 0) out["required"] = required;
    const additional = document.read(schema, "additionalProperties");
    if (isSchema(additional)) out["additionalProperties"] = copy(additional);
    return out;
  };

  const $ref = refer(document.root);
  const definitions: Record<string, unknown> = {};
  for (let next = uncopied.pop(); next !== undefined; next = uncopied.pop()) {
    definitions[targets.get(next) ?? ""] = inside(next);
  }
  return { ...$ref, $defs: definitions };
}

/** Whether two JSON values are equal. The order of an object's members does not matter, and 0 equals -0. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  return a === b || (typeof a === "object" && typeof b === "object" && comparable(a) === comparable(b));
}

/**
 * Replaces a validator's own comparison, which calls a member named `toString` or `valueOf` as a method and throws;
 * authors of schemas may use any name.
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
    validate: (wanted: boolean, items: readonly unknown[]) =>
      !wanted || new Set(items.map(comparable)).size === items.length,
  });
  return ajv;
}
