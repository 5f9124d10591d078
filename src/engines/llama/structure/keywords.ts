import type { SchemaDocument, SchemaObject } from "./schema-document.js";
import { formats } from "./string-grammar.js";

const jsonTypes = ["null", "boolean", "integer", "number", "string", "array", "object"] as const;

export type JsonType = (typeof jsonTypes)[number];

export function isJsonType(value: unknown): value is JsonType {
  return jsonTypes.some((type) => type === value);
}

const keywordsByType = {
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  array: ["items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"],
  object: [
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
  ],
} as const;

/** The type whose values a keyword restricts, by keyword. */
export const keywordTypes: ReadonlyMap<string, JsonType> = new Map(
  (["string", "number", "array", "object"] as const).flatMap((type) =>
    keywordsByType[type].map((keyword) => [keyword, type] as const),
  ),
);

const alwaysRestricts = (): boolean => false;

/** Keywords that our grammars cannot express, each with a test whether its value restricts nothing and can be ignored. */
const unenforceable: Readonly<Record<string, (value: unknown, schema: SchemaObject) => boolean>> = {
  pattern: alwaysRestricts,
  patternProperties: alwaysRestricts,
  // Schema generators write `{"type": "string"}` for the names of a map; it restricts nothing.
  propertyNames: (value) => value === true || ["{}", '{"type":"string"}'].includes(JSON.stringify(value)),
  not: alwaysRestricts,
  if: alwaysRestricts,
  dependentSchemas: alwaysRestricts,
  dependentRequired: alwaysRestricts,
  dependencies: alwaysRestricts,
  contains: alwaysRestricts,
  uniqueItems: (value) => value === false,
  multipleOf: (value, schema) => value === 1 && schema["type"] === "integer",
  unevaluatedProperties: (value) => value === true,
  unevaluatedItems: (value) => value === true,
  $dynamicRef: alwaysRestricts,
  $recursiveRef: alwaysRestricts,
};

/** Gives up every keyword of a schema that cannot be enforced, except where it restricts nothing. */
export function giveUpUnenforceable(document: SchemaDocument, schema: SchemaObject): void {
  for (const [keyword, restrictsNothing] of Object.entries(unenforceable)) {
    const value = document.read(schema, keyword);
    if (value === undefined || restrictsNothing(value, schema)) continue;
    document.giveUp(schema, keyword, "cannot be enforced while text is generated");
  }
  if (schema !== document.root && document.read(schema, "$id") !== undefined) {
    document.giveUp(schema, "$id", "is supported at the top of a schema only");
  }
}

/** The types that the schemas name and have in common; null: none names a type. */
export function explicitTypes(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly JsonType[] | null {
  let common: readonly JsonType[] | null = null;
  for (const schema of schemas) {
    const type = document.read(schema, "type");
    if (type === undefined) continue;
    const types: unknown[] = Array.isArray(type) ? type : [type];
    if (types.length === 0 || !types.every(isJsonType)) {
      return document.refuse(schema, `'type' must be one or more of ${jsonTypes.join(", ")}.`);
    }
    common = distinct(common === null ? types : intersection(common, types));
  }
  return common;
}

function intersection(left: readonly JsonType[], right: readonly JsonType[]): readonly JsonType[] {
  return [
    ...left.filter((type) => right.includes(type) || (type === "integer" && right.includes("number"))),
    ...right.filter((type) => type === "integer" && left.includes("number")),
  ];
}

/** Removes repeated types, and "integer" next to "number", which includes it. */
function distinct(types: readonly JsonType[]): readonly JsonType[] {
  return [...new Set(types)].filter((type) => type !== "integer" || !types.includes("number"));
}

/** The values that `enum` and `const` of all schemas allow; null: no schema has either. */
export function listedValues(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly unknown[] | null {
  const lists = schemas.flatMap((schema) => listsOf(document, schema));
  if (lists.length === 0) return null;
  const [first, ...others] = lists.map((values) => new Map(values.map((value) => [comparable(value), value])));
  const common = [...(first ?? [])].filter(([text]) => others.every((other) => other.has(text)));
  const types = explicitTypes(document, schemas);
  return common
    .map(([, value]) => value)
    .filter((value) => {
      if (types !== null && !types.some((type) => isOfType(value, type))) return false;
      return schemas.every((schema) => meetsBounds(document, schema, value));
    });
}

function listsOf(document: SchemaDocument, schema: SchemaObject): readonly (readonly unknown[])[] {
  const lists: (readonly unknown[])[] = [];
  const several = document.read(schema, "enum");
  if (several !== undefined) {
    if (!Array.isArray(several)) document.refuse(schema, "'enum' must be a list.");
    lists.push(several);
  }
  const one = document.read(schema, "const");
  return one === undefined ? lists : [...lists, [one]];
}

/** Whether a listed value satisfies the schema's other keywords. Keywords for its items or properties are given up. */
function meetsBounds(document: SchemaDocument, schema: SchemaObject, value: unknown): boolean {
  if (typeof value === "number") {
    const most = document.readNumber(schema, "maximum") ?? value;
    const least = document.readNumber(schema, "minimum") ?? value;
    const below = document.readNumber(schema, "exclusiveMaximum");
    const above = document.readNumber(schema, "exclusiveMinimum");
    return value >= least && value <= most && (below === null || value < below) && (above === null || value > above);
  }
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
  const format = formats.get(name);
  if (format === undefined) document.giveUp(schema, "format", "is not known and cannot be checked");
  return format === undefined || format.test.test(value);
}

function giveUpInside(document: SchemaDocument, schema: SchemaObject, value: object): void {
  for (const keyword of keywordsByType[Array.isArray(value) ? "array" : "object"]) {
    if (document.read(schema, keyword) === undefined) continue;
    document.giveUp(schema, keyword, "cannot be combined with listed values that are objects or arrays");
  }
}

function isOfType(value: unknown, type: JsonType): boolean {
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
  if (Array.isArray(value)) return `[${value.map(comparable).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${comparable(member)}`);
  return `{${members.sort().join()}}`;
}
