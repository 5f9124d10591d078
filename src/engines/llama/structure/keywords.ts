import type { SchemaDocument, SchemaObject } from "./schema-document.js";

export type JsonType = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

const jsonTypes: ReadonlySet<unknown> = new Set<JsonType>([
  "null",
  "boolean",
  "integer",
  "number",
  "string",
  "array",
  "object",
]);

export function isJsonType(value: unknown): value is JsonType {
  return jsonTypes.has(value);
}

/** Keywords that a grammar enforces, and the type of value that they speak of. A keyword of no type is not here. */
export const keywordTypes: ReadonlyMap<string, JsonType> = new Map<string, JsonType>([
  ["minLength", "string"],
  ["maxLength", "string"],
  ["pattern", "string"],
  ["format", "string"],
  ["minimum", "number"],
  ["maximum", "number"],
  ["exclusiveMinimum", "number"],
  ["exclusiveMaximum", "number"],
  ["multipleOf", "number"],
  ["items", "array"],
  ["prefixItems", "array"],
  ["additionalItems", "array"],
  ["minItems", "array"],
  ["maxItems", "array"],
  ["uniqueItems", "array"],
  ["contains", "array"],
  ["properties", "object"],
  ["required", "object"],
  ["additionalProperties", "object"],
  ["minProperties", "object"],
  ["maxProperties", "object"],
  ["patternProperties", "object"],
  ["propertyNames", "object"],
  ["dependentRequired", "object"],
  ["dependentSchemas", "object"],
  ["dependencies", "object"],
]);

/** Keywords that decide about a value and that no grammar of ours can express. */
const unenforceable: readonly string[] = [
  "pattern",
  "patternProperties",
  "propertyNames",
  "not",
  "if",
  "dependentSchemas",
  "dependentRequired",
  "dependencies",
  "contains",
  "uniqueItems",
  "multipleOf",
  "unevaluatedProperties",
  "unevaluatedItems",
  "$dynamicRef",
  "$recursiveRef",
];

/** Gives up every keyword of a schema that cannot be enforced, except where it says nothing. */
export function giveUpUnenforceable(document: SchemaDocument, schema: SchemaObject): void {
  for (const keyword of unenforceable) {
    const value = document.read(schema, keyword);
    if (value === undefined || saysNothing(keyword, value, schema)) continue;
    document.giveUp(schema, keyword, "cannot be enforced while text is generated");
  }
  if (schema !== document.root && document.read(schema, "$id") !== undefined) {
    document.giveUp(schema, "$id", "is supported at the top of a schema only");
  }
}

function saysNothing(keyword: string, value: unknown, schema: SchemaObject): boolean {
  switch (keyword) {
    case "uniqueItems":
      return value === false;
    case "multipleOf":
      return value === 1 && schema["type"] === "integer";
    case "unevaluatedProperties":
    case "unevaluatedItems":
      return value === true;
    case "propertyNames":
      return value === true || isPlainStringSchema(value);
    default:
      return false;
  }
}

/** `{"type": "string"}`, which generators of schemas write for the names of a map. */
function isPlainStringSchema(value: unknown): boolean {
  const text = JSON.stringify(value);
  return text === "{}" || text === '{"type":"string"}';
}

/** The types that a schema names; null when it names none. */
export function readTypes(document: SchemaDocument, schema: SchemaObject): readonly JsonType[] | null {
  const type = document.read(schema, "type");
  if (type === undefined) return null;
  const types: unknown[] = Array.isArray(type) ? type : [type];
  if (types.length === 0 || !types.every(isJsonType)) {
    document.refuse(schema, `'type' must be one or more of ${[...jsonTypes].join(", ")}.`);
  }
  return types;
}

/** The types that the schemas name and have in common; null: none names a type. */
export function explicitTypes(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly JsonType[] | null {
  let common: readonly JsonType[] | null = null;
  for (const schema of schemas) {
    const types = readTypes(document, schema);
    if (types === null) continue;
    common = common === null ? withoutRepetition(types) : intersection(common, types);
  }
  return common;
}

function intersection(left: readonly JsonType[], right: readonly JsonType[]): readonly JsonType[] {
  return withoutRepetition([
    ...left.filter((type) => right.includes(type) || (type === "integer" && right.includes("number"))),
    ...right.filter((type) => type === "integer" && left.includes("number")),
  ]);
}

/** A number may be an integer anyway. */
function withoutRepetition(types: readonly JsonType[]): readonly JsonType[] {
  return [...new Set(types)].filter((type) => type !== "integer" || !types.includes("number"));
}
