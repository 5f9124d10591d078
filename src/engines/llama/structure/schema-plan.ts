import { Alternatives, type FacetSet } from "./alternatives.js";
import { comparable } from "./keywords.js";
import { type Schema, SchemaDocument, type SchemaMode, SchemaUnsupported } from "./schema-document.js";
import { type ArrayShape, type ObjectShape, type Place, type ReadContext, readShapes, type Shape } from "./shapes.js";

/** Maximum places of one schema; a schema of 2,000 values has fewer, unless it combines its parts again and again. */
const placesMax = 4_000;

/** Maximum elements that bounded repetitions of one schema may add to a grammar. */
const repetitionsMax = 20_000;

/** A schema as a grammar will enforce it. */
export interface SchemaPlan {
  readonly root: Place;
  readonly document: SchemaDocument;
  /** Elements that its bounded repetitions add to a grammar. */
  readonly repetitions: number;
}

/**
 * Reads a JSON Schema into places and shapes, and decides which keywords are enforced; the keywords that are not enforced in
 * lenient mode are marked in the document. Throws SchemaUnsupported.
 */
export function planSchema(schema: unknown, mode: SchemaMode): SchemaPlan {
  const document = new SchemaDocument(schema, mode);
  const alternatives = new Alternatives(document);
  const places = new Map<string, Place>();
  const unread: { readonly place: Place; readonly sets: readonly FacetSet[] }[] = [];
  const shapesOfSet = new Map<string, readonly Shape[]>();
  let repetitions = 0;

  const placeOf = (schemas: readonly Schema[]): Place => {
    const sets = alternatives.ofAll(schemas);
    const key = sets.length === 0 ? "never" : sets.map((set) => set.key).join("|");
    const known = places.get(key);
    if (known !== undefined) return known;
    if (places.size >= placesMax) {
      throw new SchemaUnsupported("", `its parts combine to more than ${placesMax} places; use fewer combinations.`);
    }
    const place: Place = { shapes: [] };
    places.set(key, place);
    unread.push({ place, sets });
    return place;
  };
  const reserve = (elements: number): boolean => {
    if (repetitions + elements > repetitionsMax) return false;
    repetitions += elements;
    return true;
  };
  const context: ReadContext = { document, placeOf, reserve };

  const root = placeOf([document.root]);
  for (let next = unread.pop(); next !== undefined; next = unread.pop()) {
    next.place.shapes = simplified(
      next.sets.flatMap(({ key, schemas }) => {
        const shapes = shapesOfSet.get(key) ?? readShapes(context, schemas);
        shapesOfSet.set(key, shapes);
        return shapes;
      }),
    );
  }
  const all = [...places.values()];
  removeImpossible(all);
  limitPaths(all, mode);
  // Called again, because a remaining alternative may have no finite value without a removed one.
  removeImpossible(all);
  if (root.shapes.length === 0) throw new SchemaUnsupported("", "no finite value satisfies it.");
  return { root, document, repetitions };
}

/** Removes redundant shapes: "any" includes all others, lists of values are one list, and equal scalars are one. */
function simplified(shapes: readonly Shape[]): readonly Shape[] {
  const any = shapes.find((shape) => shape.kind === "any");
  if (any !== undefined) return [any];
  const values = shapes.flatMap((shape) => (shape.kind === "values" ? shape.values : []));
  const others = new Map(
    shapes.flatMap((shape) => (shape.kind === "values" ? [] : [[scalarKey(shape) ?? shape, shape] as const])),
  );
  return values.length === 0 ? [...others.values()] : [{ kind: "values", values }, ...others.values()];
}

function scalarKey(shape: Shape): string | null {
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

/**
 * Removes shapes that no finite value has: objects that must contain themselves, lists of no values, places that nothing
 * satisfies. Without this a grammar could begin a value that it can never end. Changes the places.
 */
function removeImpossible(places: readonly Place[]): void {
  const possible = possiblePlaces(places);
  for (const place of places) {
    place.shapes = place.shapes.filter((shape) => isPossible(shape, possible)).map((shape) => pruned(shape, possible));
  }
}

/** Grows the set of places with a finite value until nothing is added. */
function possiblePlaces(places: readonly Place[]): ReadonlySet<Place> {
  const possible = new Set<Place>();
  const holders = holdersOf(places);
  const todo = [...places];
  for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
    if (possible.has(place) || !place.shapes.some((shape) => isPossible(shape, possible))) continue;
    possible.add(place);
    todo.push(...(holders.get(place) ?? []));
  }
  return possible;
}

/** For each place, the places whose shapes contain it. */
function holdersOf(places: readonly Place[]): ReadonlyMap<Place, readonly Place[]> {
  const holders = new Map<Place, Place[]>();
  for (const place of places) {
    for (const part of new Set(place.shapes.flatMap(partsOf))) {
      const known = holders.get(part);
      if (known === undefined) holders.set(part, [place]);
      else known.push(place);
    }
  }
  return holders;
}

/** Places inside of a shape. */
function partsOf(shape: Shape): readonly Place[] {
  if (shape.kind === "array") return [...shape.prefix, shape.items];
  if (shape.kind !== "object") return [];
  const listed = shape.properties.map(({ place }) => place);
  return shape.extra === null ? listed : [...listed, shape.extra];
}

function isPossible(shape: Shape, possible: ReadonlySet<Place>): boolean {
  switch (shape.kind) {
    case "values":
      return shape.values.length > 0;
    case "array":
      return [...shape.prefix, shape.items].slice(0, shape.minItems).every((place) => possible.has(place));
    case "object":
      if (!shape.properties.every(({ required, place }) => !required || possible.has(place))) return false;
      return !shape.notEmpty || partsOf(shape).some((place) => possible.has(place));
    default:
      return true;
  }
}

function pruned(shape: Shape, possible: ReadonlySet<Place>): Shape {
  if (shape.kind === "array") {
    const reach = [...shape.prefix, shape.items].findIndex((place) => !possible.has(place));
    return reach < 0 ? shape : { ...shape, maxItems: Math.min(reach, shape.maxItems ?? reach) };
  }
  if (shape.kind !== "object") return shape;
  return {
    ...shape,
    properties: shape.properties.filter(({ place }) => possible.has(place)),
    extra: shape.extra !== null && possible.has(shape.extra) ? shape.extra : null,
  };
}

/**
 * Maximum paths through nested unions. An engine follows every alternative of a union until the text distinguishes them. If
 * another union begins before that, the number of paths multiplies.
 */
const pathsMax = 64;

/** Maximum alternatives of one place that are objects or arrays. */
const compoundsMax = 128;

type Compound = ObjectShape | ArrayShape;

/** Refuses (strict) or cuts to the first alternative (lenient) unions that would take too many paths. Changes the places. */
function limitPaths(places: readonly Place[], mode: SchemaMode): void {
  for (const place of places) limitCompounds(place, mode);
  const holders = holdersOf(places);
  const paths = new Map<Place, number>();
  const todo = [...places];
  for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
    let count = pathsOf(place, paths);
    if (count > pathsMax) {
      if (mode === "strict") throw new SchemaUnsupported("", tooAlike);
      const kept = new Set<Shape>(groupsOf(place.shapes).flatMap((group) => group.slice(0, 1)));
      place.shapes = place.shapes.filter((shape) => !isCompound(shape) || kept.has(shape));
      count = Math.min(pathsMax, pathsOf(place, paths));
    }
    if (count <= (paths.get(place) ?? 1)) continue;
    paths.set(place, count);
    todo.push(...(holders.get(place) ?? []));
  }
}

const tooAlike =
  "alternatives that begin alike are nested, which takes too many paths to follow; give each a required first property with a 'const' of its own.";

function limitCompounds(place: Place, mode: SchemaMode): void {
  const compounds = place.shapes.filter(isCompound);
  if (compounds.length <= compoundsMax) return;
  if (mode === "strict") {
    throw new SchemaUnsupported("", `more than ${compoundsMax} alternatives of one place are objects or arrays.`);
  }
  const kept = new Set<Shape>(compounds.slice(0, compoundsMax));
  place.shapes = place.shapes.filter((shape) => !isCompound(shape) || kept.has(shape));
}

function pathsOf(place: Place, paths: ReadonlyMap<Place, number>): number {
  const inside = (shape: Shape) => Math.max(1, ...partsOf(shape).map((part) => paths.get(part) ?? 1));
  const sums = groupsOf(place.shapes).map((group) => group.reduce((sum, shape) => sum + inside(shape), 0));
  return Math.max(1, ...sums);
}

/** The objects and arrays, grouped by whether they can begin alike. */
function groupsOf(shapes: readonly Shape[]): readonly (readonly Compound[])[] {
  const groups: Compound[][] = [];
  for (const shape of shapes.filter(isCompound)) {
    const alike = groups.filter((group) => group.some((other) => beginAlike(shape, other)));
    for (const group of alike) groups.splice(groups.indexOf(group), 1);
    groups.push([...alike.flat(), shape]);
  }
  return groups;
}

function isCompound(shape: Shape): shape is Compound {
  return shape.kind === "object" || shape.kind === "array";
}

function beginAlike(a: Compound, b: Compound): boolean {
  if (a.kind !== "object" || b.kind !== "object") return a.kind === b.kind;
  const [left, right] = [firstProperties(a), firstProperties(b)];
  if (left.open || right.open) return true;
  return [...left.places].some(([name, place]) => {
    const other = right.places.get(name);
    return other !== undefined && !haveDifferentValues(place, other);
  });
}

/** Properties that an object can begin with; `open`: also ones that are not listed. */
function firstProperties({ properties, extra }: ObjectShape) {
  const firstRequired = properties.findIndex(({ required }) => required);
  const first = firstRequired < 0 ? properties : properties.slice(0, firstRequired + 1);
  return {
    places: new Map(first.map(({ name, place }) => [name, place])),
    open: firstRequired < 0 && extra !== null,
  };
}

function haveDifferentValues(a: Place, b: Place): boolean {
  const [left, right] = [listedTexts(a), listedTexts(b)];
  return left !== null && right !== null && ![...left].some((text) => right.has(text));
}

function listedTexts({ shapes }: Place): ReadonlySet<string> | null {
  const values = shapes.flatMap((shape) => (shape.kind === "values" ? shape.values : []));
  return shapes.every(({ kind }) => kind === "values") ? new Set(values.map(comparable)) : null;
}
