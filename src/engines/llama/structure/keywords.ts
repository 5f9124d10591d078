import type { SchemaDocument, SchemaObject } from "./schema-document.js";
import { jsonText, stringFormat } from "./string-grammar.js";

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

/** The values that `enum` and `const` of all schemas leave, where any of them has one; null: none has. */
export function listedValues(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly unknown[] | null {
  let left: ReadonlyMap<string, unknown> | null = null;
  for (const schema of schemas) {
    for (const values of listsOf(document, schema)) {
      left = keptOf(left, new Map(values.map((value) => [comparable(value), value])));
    }
  }
  if (left === null) return null;
  const types = explicitTypes(document, schemas);
  return [...left.values()].filter((value) => {
    if (types !== null && !types.some((type) => isOfType(value, type))) return false;
    return schemas.every((schema) => meetsBounds(document, schema, value));
  });
}

function keptOf(before: ReadonlyMap<string, unknown> | null, own: ReadonlyMap<string, unknown>) {
  return before === null ? own : new Map([...before].filter(([text]) => own.has(text)));
}

function listsOf(document: SchemaDocument, schema: SchemaObject): readonly (readonly unknown[])[] {
  const lists: (readonly unknown[])[] = [];
  const several = document.read(schema, "enum");
  if (several !== undefined) {
    if (!Array.isArray(several)) document.refuse(schema, "'enum' must be a list.");
    lists.push(several);
  }
  const one = document.read(schema, "const");
  if (one !== undefined) lists.push([one]);
  return lists;
}

/** Whether a listed value keeps the schema's other keywords. Those that speak of its inside are given up. */
function meetsBounds(document: SchemaDocument, schema: SchemaObject, value: unknown): boolean {
  if (typeof value === "number") return meetsNumberBounds(document, schema, value);
  if (typeof value === "string") {
    const length = [...value].length;
    return (
      isOfFormat(document, schema, value) &&
      length >= (document.readCount(schema, "minLength") ?? 0) &&
      length <= (document.readCount(schema, "maxLength") ?? length)
    );
  }
  if (typeof value === "object" && value !== null) giveUpInside(document, schema, value);
  return true;
}

function isOfFormat(document: SchemaDocument, schema: SchemaObject, value: string): boolean {
  const name = document.read(schema, "format");
  if (name === undefined) return true;
  const format = typeof name === "string" ? stringFormat(name) : null;
  if (format === null) document.giveUp(schema, "format", "is not known and cannot be checked");
  return format === null || format.test.test(value);
}

function meetsNumberBounds(document: SchemaDocument, schema: SchemaObject, value: number): boolean {
  const most = document.readNumber(schema, "maximum") ?? value;
  const least = document.readNumber(schema, "minimum") ?? value;
  const below = document.readNumber(schema, "exclusiveMaximum");
  const above = document.readNumber(schema, "exclusiveMinimum");
  return value >= least && value <= most && (below === null || value < below) && (above === null || value > above);
}

function giveUpInside(document: SchemaDocument, schema: SchemaObject, value: object): void {
  const type: JsonType = Array.isArray(value) ? "array" : "object";
  for (const [keyword, of] of keywordTypes) {
    if (of === type && document.read(schema, keyword) !== undefined) {
      document.giveUp(schema, keyword, "cannot be combined with listed values that are objects or arrays");
    }
  }
}

export function isOfType(value: unknown, type: JsonType): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/** A text that is the same for equal JSON values, whatever the order of their members. */
export function comparable(value: unknown): string {
  return jsonText(sorted(value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, sorted(member)] as const);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}
