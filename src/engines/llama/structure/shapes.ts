import { explicitTypes, isJsonType, type JsonType, keywordTypes, listedValues } from "./keywords.js";
import { type NumberRange, readRange } from "./number-grammar.js";
import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";
import { formats, type StringFormat, stringCost, stringLengthMax } from "./string-grammar.js";

/** A place in a document, with every shape that a value there may have. No shape: no value is valid there. */
export interface Place {
  shapes: readonly Shape[];
}

/** One kind of value as a grammar describes it. */
export type Shape =
  | { readonly kind: "any" | "null" | "boolean" }
  | { readonly kind: "values"; readonly values: readonly unknown[] }
  | { readonly kind: "integer" | "number"; readonly range: NumberRange | null }
  | StringShape
  | ArrayShape
  | ObjectShape;

export interface StringShape {
  readonly kind: "string";
  readonly minLength: number;
  readonly maxLength: number | null;
  readonly format: StringFormat | null;
}

export interface ArrayShape {
  readonly kind: "array";
  /** Places of the first items. */
  readonly prefix: readonly Place[];
  /** Place of all further items. */
  readonly items: Place;
  readonly minItems: number;
  readonly maxItems: number | null;
}

export interface ObjectShape {
  readonly kind: "object";
  readonly properties: readonly PropertyShape[];
  /** Place of properties that are not listed; null: there are none. */
  readonly extra: Place | null;
  /** Whether there is at least one property, listed or not. */
  readonly notEmpty: boolean;
  /** Maximum number of properties; set only if no property is listed. */
  readonly maxProperties: number | null;
}

interface PropertyShape {
  readonly name: string;
  readonly place: Place;
  readonly required: boolean;
}

export interface ReadContext {
  readonly document: SchemaDocument;
  readonly placeOf: (schemas: readonly Schema[]) => Place;
  /** Reserves elements of a grammar for a repetition; false if fewer are left. */
  readonly reserve: (elements: number) => boolean;
}

/** Reads the shapes that all of the schemas together allow. Throws SchemaUnsupported. */
export function readShapes(context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const types = typesOf(context.document, schemas);
  const values = listedValues(context.document, schemas);
  if (values !== null) return [{ kind: "values", values }];
  if (types === null) return [{ kind: "any" }];
  return types.flatMap((type) => readType(type, context, schemas));
}

function readType(type: JsonType, context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  switch (type) {
    case "null":
    case "boolean":
      return [{ kind: type }];
    case "integer":
    case "number": {
      const range = readRange(context.document, schemas, type === "integer");
      return range !== null && range.low > range.high ? [] : [{ kind: type, range }];
    }
    case "string":
      return readString(context, schemas);
    case "array":
      return readArray(context, schemas);
    case "object":
      return readObject(context, schemas);
  }
}

/**
 * The types that all schemas allow; null: no schema restricts them. Without any `type`, keywords of one type mean values
 * of that type. This is narrower than the standard, but authors of such schemas expect it.
 */
function typesOf(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly JsonType[] | null {
  const named = explicitTypes(document, schemas);
  if (named !== null) return named;
  const meant = new Set<JsonType>();
  for (const schema of schemas) {
    for (const [keyword, type] of keywordTypes) if (document.read(schema, keyword) !== undefined) meant.add(type);
  }
  return meant.size === 0 ? null : [...meant].filter(isJsonType);
}

const tooLarge = "makes too large a grammar together with the other bounds of this schema";

/** The shape of strings that satisfy all of the schemas; empty if their bounds exclude each other. */
function readString({ document, reserve }: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const lengths = schemas.flatMap((schema) => ["minLength", "maxLength"].map((keyword) => ({ schema, keyword })));
  const giveUpLengths = (why: string, isMeant: (length: number | null) => boolean = (length) => length !== null) => {
    for (const { schema, keyword } of lengths) {
      if (isMeant(document.readCount(schema, keyword))) document.giveUp(schema, keyword, why);
    }
  };
  const format = readFormat(document, schemas);
  giveUpLengths(`may be at most ${stringLengthMax}`, (length) => (length ?? 0) > stringLengthMax);
  const { least: minLength, most: maxLength } = countBounds(document, schemas, "minLength", "maxLength");
  if (maxLength !== null && minLength > maxLength) return [];
  const free = { kind: "string", minLength: 0, maxLength: null, format } as const;
  if (format !== null) {
    const fits = minLength <= format.shortest && (maxLength === null || maxLength >= format.longest);
    if (!fits) giveUpLengths("cannot be combined with this format");
    return [free];
  }
  if (reserve(stringCost(minLength, maxLength))) return [{ ...free, minLength, maxLength }];
  giveUpLengths(tooLarge);
  return [free];
}

/** The tightest of the schemas' lower and upper counts; null: none is given. */
function countBounds(document: SchemaDocument, schemas: readonly SchemaObject[], lower: string, upper: string) {
  const least = schemas.map((schema) => document.readCount(schema, lower) ?? 0);
  const most = schemas.flatMap((schema) => document.readCount(schema, upper) ?? []);
  return { least: Math.max(0, ...least), most: most.length === 0 ? null : Math.min(...most) };
}

/** The format to enforce. Of two different ones the first is kept. */
function readFormat(document: SchemaDocument, schemas: readonly SchemaObject[]): StringFormat | null {
  let kept: StringFormat | null = null;
  for (const schema of schemas) {
    const name = document.read(schema, "format");
    if (name === undefined) continue;
    if (typeof name !== "string") return document.refuse(schema, "'format' must be a text.");
    const format = formats.get(name);
    if (format === undefined) document.giveUp(schema, "format", `can only be one of ${[...formats.keys()].join(", ")}`);
    else if (kept !== null && kept !== format)
      document.giveUp(schema, "format", "conflicts with another format of the same value");
    else kept = format;
  }
  return kept;
}

/** Maximum count of items and properties: the engine's parser accepts repetitions below 2,000. */
const countMax = 1_900;

/** Number of elements that each counted item or property adds to a grammar. */
const elementsPerCount = 4;

/** The shape of arrays that satisfy all of the schemas; empty if their bounds exclude each other. */
function readArray(context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const { document, placeOf } = context;
  const lists = schemas.map((schema) => itemSchemas(document, schema));
  const prefixLength = Math.max(...lists.map((list) => list.prefix.length));
  const at = (position: number) =>
    lists.map(({ prefix, rest }) => prefix[position] ?? rest).filter((schema) => schema !== null);
  giveUpLargeCounts(context, schemas);
  const { least: minItems, most: maxItems } = countBounds(document, schemas, "minItems", "maxItems");
  if (maxItems !== null && minItems > maxItems) return [];
  // Items after a listed beginning are left out unless a schema describes them or requires them by `minItems`.
  const isClosed = prefixLength > 0 && minItems <= prefixLength && lists.every(({ rest }) => rest === null);
  return [
    {
      kind: "array",
      prefix: Array.from({ length: prefixLength }, (_, position) => placeOf(at(position))),
      items: placeOf(isClosed ? [false] : at(prefixLength)),
      minItems,
      maxItems,
    },
  ];
}

function giveUpLargeCounts({ document, reserve }: ReadContext, schemas: readonly SchemaObject[]): void {
  for (const schema of schemas) {
    for (const keyword of ["minItems", "maxItems"]) {
      const count = document.readCount(schema, keyword) ?? 0;
      if (count > countMax) document.giveUp(schema, keyword, `may be at most ${countMax}`);
      else if (!reserve(count * elementsPerCount)) document.giveUp(schema, keyword, tooLarge);
    }
  }
}

interface ItemSchemas {
  readonly prefix: readonly Schema[];
  readonly rest: Schema | null;
}

/** Reads item schemas in both spellings: `prefixItems` with `items`, and the older list of `items` with `additionalItems`. */
export function itemSchemas(document: SchemaDocument, schema: SchemaObject): ItemSchemas {
  const isOlder = Array.isArray(document.read(schema, "items"));
  const [prefix, rest] = isOlder ? ["items", "additionalItems"] : ["prefixItems", "items"];
  return { prefix: document.readSchemas(schema, prefix) ?? [], rest: document.readSchema(schema, rest) };
}

/** Maximum optional properties in a row: each is a path that the engine must try at the next name. */
const optionalRunMax = 256;

/** A name with a special meaning in JavaScript; validators skip it. */
export const unsafeName = "__proto__";

/** The shape of objects that satisfy all of the schemas; empty if the schemas exclude each other. */
function readObject(context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const { document, placeOf } = context;
  const parts = schemas.map((schema) => readPart(document, schema));
  const names = [...new Set(parts.flatMap(({ properties, required }) => [...properties.keys(), ...required]))];
  const required = new Set(parts.flatMap((part) => part.required));
  const properties: PropertyShape[] = names.map((name) => ({
    name,
    place: placeOf(
      parts.map((part) => part.properties.get(name) ?? part.additional).filter((schema) => schema !== null),
    ),
    required: required.has(name),
  }));
  const extra = extraSchemas(parts);
  const { notEmpty, maxProperties } = readPropertyBounds(context, schemas, properties, extra !== null);
  if (maxProperties !== null && maxProperties < (notEmpty ? 1 : 0)) return [];
  return [
    {
      kind: "object",
      properties: withinRun(document, schemas, properties),
      extra: extra === null ? null : placeOf(extra),
      notEmpty,
      maxProperties,
    },
  ];
}

interface ObjectPart {
  readonly properties: ReadonlyMap<string, Schema>;
  readonly required: readonly string[];
  readonly additional: Schema | null;
}

function readPart(document: SchemaDocument, schema: SchemaObject): ObjectPart {
  const properties = new Map(document.readProperties(schema));
  const required = document.readNames(schema, "required");
  if (properties.has(unsafeName) || required.includes(unsafeName)) {
    if (document.mode === "strict") document.refuse(schema, `a property cannot be named '${unsafeName}'.`);
    properties.delete(unsafeName);
  }
  return {
    properties,
    required: required.filter((name) => name !== unsafeName),
    additional: document.readSchema(schema, "additionalProperties"),
  };
}

/**
 * Schemas of unlisted properties; null: there are none. Where properties are listed and no schema describes others,
 * others are left out: authors who list properties do not want a model to invent more.
 */
function extraSchemas(parts: readonly ObjectPart[]): readonly Schema[] | null {
  const given = parts.map(({ additional }) => additional).filter((schema) => schema !== null);
  if (given.includes(false)) return null;
  if (given.length === 0 && parts.some(({ properties, required }) => properties.size + required.length > 0))
    return null;
  return given;
}

/** Reads `minProperties` and `maxProperties`. A bound is given up if it excludes objects of listed properties. */
function readPropertyBounds(
  { document, reserve }: ReadContext,
  schemas: readonly SchemaObject[],
  properties: readonly PropertyShape[],
  hasExtra: boolean,
): Pick<ObjectShape, "notEmpty" | "maxProperties"> {
  const required = properties.filter((property) => property.required).length;
  let notEmpty = false;
  let maxProperties: number | null = null;
  for (const schema of schemas) {
    const least = document.readCount(schema, "minProperties") ?? 0;
    if (least > Math.max(1, required)) {
      document.giveUp(schema, "minProperties", "can only be 1, or at most the number of required properties");
    } else if (least > required) notEmpty = true;
    const most = document.readCount(schema, "maxProperties");
    if (most === null || (!hasExtra && most >= properties.length)) continue;
    const isCounted = properties.length === 0 && most <= countMax && reserve(most * elementsPerCount);
    if (isCounted) maxProperties = Math.min(most, maxProperties ?? most);
    else document.giveUp(schema, "maxProperties", "can only be enforced for small maps without listed properties");
  }
  return { notEmpty, maxProperties };
}

/** Leaves out optional properties after `optionalRunMax` of them in a row; strict mode refuses such schemas instead. */
function withinRun(
  document: SchemaDocument,
  schemas: readonly SchemaObject[],
  properties: readonly PropertyShape[],
): readonly PropertyShape[] {
  let run = 0;
  return properties.filter((property) => {
    run = property.required ? 0 : run + 1;
    if (run <= optionalRunMax) return true;
    if (document.mode === "strict") {
      document.refuse(schemas[0] ?? {}, `it has more than ${optionalRunMax} optional properties in a row.`);
    }
    return false;
  });
}
