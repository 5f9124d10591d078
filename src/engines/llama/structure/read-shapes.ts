import type { FacetSet } from "./alternatives.js";
import { explicitTypes, isJsonType, type JsonType, keywordTypes } from "./keywords.js";
import { listedValues } from "./listed-values.js";
import { integerRange, type NumberRange, numberRange } from "./number-range.js";
import { readArray } from "./read-array.js";
import type { ReadContext } from "./read-context.js";
import { readObject } from "./read-object.js";
import { readString } from "./read-string.js";
import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";
import type { Place, Shape } from "./shape.js";

/** Elements that bounded repetitions of one schema may add to a grammar. */
const repetitionsMax = 20_000;

/** Turns sets of schemas into the shapes that they allow. Throws SchemaUnsupported. */
export class ShapeReader {
  readonly #context: ReadContext;
  readonly #known = new Map<string, readonly Shape[]>();
  #repetitions = 0;

  constructor(document: SchemaDocument, placeOf: (schemas: readonly Schema[]) => Place) {
    const reserve = (elements: number) => {
      if (this.#repetitions + elements > repetitionsMax) return false;
      this.#repetitions += elements;
      return true;
    };
    this.#context = { document, placeOf, reserve };
  }

  /** Elements that were set aside so far. */
  get repetitions(): number {
    return this.#repetitions;
  }

  shapesOf(set: FacetSet): readonly Shape[] {
    const known = this.#known.get(set.key);
    if (known !== undefined) return known;
    const shapes = this.#read(set.schemas);
    this.#known.set(set.key, shapes);
    return shapes;
  }

  #read(schemas: readonly SchemaObject[]): readonly Shape[] {
    const types = typesOf(this.#context.document, schemas);
    const values = listedValues(this.#context.document, schemas);
    if (values !== null) return [{ kind: "values", values }];
    if (types === null) return [{ kind: "any" }];
    return types.flatMap((type) => this.#ofType(type, schemas));
  }

  #ofType(type: JsonType, schemas: readonly SchemaObject[]): readonly Shape[] {
    const { document } = this.#context;
    switch (type) {
      case "null":
      case "boolean":
        return [{ kind: type }];
      case "integer":
        return numeric(type, integerRange(document, schemas));
      case "number":
        return numeric(type, numberRange(document, schemas));
      case "string":
        return readString(this.#context, schemas);
      case "array":
        return readArray(this.#context, schemas);
      case "object":
        return readObject(this.#context, schemas);
    }
  }
}

function numeric(kind: "integer" | "number", range: NumberRange | null): readonly Shape[] {
  return range !== null && range.low > range.high ? [] : [{ kind, range }];
}

/**
 * The types that all schemas allow. Without any `type`, keywords that speak of one type mean values of that type, which
 * is narrower than the standard's reading and what people who write so expect; null: nothing says anything.
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
