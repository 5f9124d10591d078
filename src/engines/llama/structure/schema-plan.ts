import { Alternatives, type FacetSet } from "./alternatives.js";
import { limitPaths, withoutImpossible } from "./prune-shapes.js";
import { ShapeReader } from "./read-shapes.js";
import { type Schema, SchemaDocument, type SchemaMode, SchemaUnsupported } from "./schema-document.js";
import type { Place, Shape } from "./shape.js";

/** Places of one schema; a schema of 2,000 values has fewer, unless it combines its parts again and again. */
const placesMax = 4_000;

/** A schema as a grammar will enforce it. */
export interface SchemaPlan {
  readonly root: Place;
  readonly document: SchemaDocument;
  /** Elements that its bounded repetitions add to a grammar. */
  readonly repetitions: number;
}

/**
 * Reads a JSON Schema into places and shapes, and decides what is enforced; what `lenient` gives up is noted in the
 * document. Throws SchemaUnsupported.
 */
export function planSchema(schema: unknown, mode: SchemaMode): SchemaPlan {
  const document = new SchemaDocument(schema, mode);
  const alternatives = new Alternatives(document);
  const places = new Places(alternatives);
  const root = places.of([document.root]);
  const reader = new ShapeReader(document, (schemas) => places.of(schemas));
  places.readAll(reader);
  withoutImpossible(places.all());
  limitPaths(places.all(), mode);
  // Where alternatives were cut, those that are left may need one of them to come to an end.
  withoutImpossible(places.all());
  if (root.shapes.length === 0) throw new SchemaUnsupported("", "no finite value satisfies it.");
  return { root, document, repetitions: reader.repetitions };
}

class Places {
  readonly #alternatives: Alternatives;
  readonly #known = new Map<string, Place>();
  readonly #unread: { readonly place: Place; readonly sets: readonly FacetSet[] }[] = [];

  constructor(alternatives: Alternatives) {
    this.#alternatives = alternatives;
  }

  of(schemas: readonly Schema[]): Place {
    const sets = this.#alternatives.ofAll(schemas);
    const key = sets.length === 0 ? "never" : sets.map((set) => set.key).join("|");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#known.size >= placesMax) {
      throw new SchemaUnsupported("", `its parts combine to more than ${placesMax} places; use fewer combinations.`);
    }
    const place: Place = { shapes: [] };
    this.#known.set(key, place);
    this.#unread.push({ place, sets });
    return place;
  }

  all(): readonly Place[] {
    return [...this.#known.values()];
  }

  readAll(reader: ShapeReader): void {
    for (let next = this.#unread.pop(); next !== undefined; next = this.#unread.pop()) {
      next.place.shapes = simplified(next.sets.flatMap((set) => reader.shapesOf(set)));
    }
  }
}

/** Leaves what adds nothing out: any value takes in everything, and lists of values are one list. */
function simplified(shapes: readonly Shape[]): readonly Shape[] {
  const any = shapes.find((shape) => shape.kind === "any");
  if (any !== undefined) return [any];
  const values = shapes.flatMap((shape) => (shape.kind === "values" ? shape.values : []));
  const others = new Map(
    shapes.flatMap((shape) => (shape.kind === "values" ? [] : [[leafKey(shape) ?? shape, shape] as const])),
  );
  return values.length === 0 ? [...others.values()] : [{ kind: "values", values }, ...others.values()];
}

function leafKey(shape: Shape): string | null {
  switch (shape.kind) {
    case "null":
    case "boolean":
      return shape.kind;
    case "integer":
    case "number":
      return shape.range === null ? shape.kind : null;
    case "string":
      return shape.format === null ? `string ${shape.minLength} ${shape.maxLength}` : null;
    default:
      return null;
  }
}
