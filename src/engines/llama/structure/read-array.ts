import type { ReadContext } from "./read-context.js";
import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";
import type { Shape } from "./shape.js";

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
