import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";
import type { PropertyShape, ReadContext, Shape } from "./shape.js";

/** The engine's parser takes repetitions below 2,000. */
const itemsMax = 1_900;

/** Elements that each counted item adds to a grammar. */
const elementsPerItem = 4;

/** The shape of arrays under all of the schemas; none when their bounds exclude each other. */
export function readArray(context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const { document } = context;
  const lists = schemas.map((schema) => itemSchemas(document, schema));
  const prefixLength = Math.max(...lists.map((list) => list.prefix.length));
  const at = (position: number) =>
    lists.map(({ prefix, rest }) => prefix[position] ?? rest).filter((schema) => schema !== null);
  const { minItems, maxItems } = readItemBounds(context, schemas);
  if (maxItems !== null && minItems > maxItems) return [];
  return [
    {
      kind: "array",
      prefix: Array.from({ length: prefixLength }, (_, position) => context.placeOf(at(position))),
      items: context.placeOf(hasOnlyPrefix(lists, minItems, prefixLength) ? [false] : at(prefixLength)),
      minItems,
      maxItems,
    },
  ];
}

interface ItemSchemas {
  readonly prefix: readonly Schema[];
  readonly rest: Schema | null;
}

/** Items after a described beginning are left out unless something speaks of them or asks for their number. */
function hasOnlyPrefix(lists: readonly ItemSchemas[], minItems: number, prefixLength: number): boolean {
  return prefixLength > 0 && minItems <= prefixLength && lists.every(({ rest }) => rest === null);
}

/** Both spellings of item schemas: `prefixItems` with `items`, and the older list of `items` with `additionalItems`. */
export function itemSchemas(document: SchemaDocument, schema: SchemaObject): ItemSchemas {
  if (Array.isArray(document.read(schema, "items"))) {
    return {
      prefix: document.readSchemas(schema, "items") ?? [],
      rest: document.readSchema(schema, "additionalItems"),
    };
  }
  return {
    prefix: document.readSchemas(schema, "prefixItems") ?? [],
    rest: document.readSchema(schema, "items"),
  };
}

function readItemBounds(
  context: ReadContext,
  schemas: readonly SchemaObject[],
): { readonly minItems: number; readonly maxItems: number | null } {
  const { document } = context;
  for (const schema of schemas) {
    for (const keyword of ["minItems", "maxItems"]) {
      const count = document.readCount(schema, keyword) ?? 0;
      if (count > itemsMax) document.giveUp(schema, keyword, `may be at most ${itemsMax}`);
      else if (!context.reserve(count * elementsPerItem)) {
        document.giveUp(schema, keyword, "makes too large a grammar together with the other bounds of this schema");
      }
    }
  }
  const least = schemas.map((schema) => document.readCount(schema, "minItems") ?? 0);
  const most = schemas.flatMap((schema) => document.readCount(schema, "maxItems") ?? []);
  return { minItems: Math.max(...least), maxItems: most.length === 0 ? null : Math.min(...most) };
}

/** Optional properties in a row: each is a path of its own that the engine must try at the next name. */
const optionalRunMax = 256;

/** Bounded maps: the engine's parser takes repetitions below 2,000. */
const mapPropertiesMax = 1_900;
const elementsPerProperty = 4;

/** The one name that JavaScript gives a meaning of its own; validators pass over it. */
const unsafeName = "__proto__";

/** The shape of objects under all of the schemas; none when they exclude each other. */
export function readObject(context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const { document } = context;
  const parts = schemas.map((schema) => readPart(document, schema));
  const names = [...new Set(parts.flatMap(({ properties, required }) => [...properties.keys(), ...required]))];
  const required = new Set(parts.flatMap((part) => part.required));
  const properties: PropertyShape[] = names.map((name) => ({
    name,
    place: context.placeOf(
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
      extra: extra === null ? null : context.placeOf(extra),
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
 * What unlisted properties must satisfy; null: there are none. Where properties are listed and nothing is said about
 * others, others are left out: nobody who lists properties wants a model to invent more.
 */
function extraSchemas(parts: readonly ObjectPart[]): readonly Schema[] | null {
  const said = parts.map(({ additional }) => additional).filter((schema) => schema !== null);
  if (said.includes(false)) return null;
  if (said.length === 0 && parts.some(({ properties, required }) => properties.size + required.length > 0)) return null;
  return said;
}

/** `minProperties` and `maxProperties`, where they say no more than the list does or count nothing but unlisted ones. */
function readPropertyBounds(
  context: ReadContext,
  schemas: readonly SchemaObject[],
  properties: readonly PropertyShape[],
  hasExtra: boolean,
): { readonly notEmpty: boolean; readonly maxProperties: number | null } {
  const { document } = context;
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
    const counts = properties.length === 0 && most <= mapPropertiesMax;
    if (counts && context.reserve(most * elementsPerProperty)) maxProperties = Math.min(most, maxProperties ?? most);
    else document.giveUp(schema, "maxProperties", "can only be enforced for small maps without listed properties");
  }
  return { notEmpty, maxProperties };
}

/** Leaves out optional properties beyond a number in a row, which strict mode refuses. */
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
