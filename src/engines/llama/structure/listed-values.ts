import { jsonText } from "./gbnf.js";
import { explicitTypes, type JsonType, keywordTypes } from "./keywords.js";
import type { SchemaDocument, SchemaObject } from "./schema-document.js";
import { stringFormat } from "./string-format.js";

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
