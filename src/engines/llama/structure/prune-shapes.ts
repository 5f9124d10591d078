import { comparable } from "./keywords.js";
import { type SchemaMode, SchemaUnsupported } from "./schema-document.js";
import type { ArrayShape, ObjectShape, Place, Shape } from "./shape.js";

/**
 * Takes shapes away that no finite value has: objects that must hold themselves, lists of no values, places that
 * nothing satisfies. Without this a grammar could begin what it can never end. Changes the places.
 */
export function withoutImpossible(places: readonly Place[]): void {
  const possible = possiblePlaces(places);
  for (const place of places) {
    place.shapes = place.shapes.filter((shape) => isPossible(shape, possible)).map((shape) => pruned(shape, possible));
  }
}

/** Grows the set of places with a finite value until nothing is added. */
function possiblePlaces(places: readonly Place[]): ReadonlySet<Place> {
  const possible = new Set<Place>();
  const inside = placesWith(places);
  const todo = [...places];
  for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
    if (possible.has(place) || !place.shapes.some((shape) => isPossible(shape, possible))) continue;
    possible.add(place);
    todo.push(...(inside.get(place) ?? []));
  }
  return possible;
}

/** For each place, the places whose shapes hold it. */
export function placesWith(places: readonly Place[]): ReadonlyMap<Place, readonly Place[]> {
  const inside = new Map<Place, Place[]>();
  for (const place of places) {
    for (const part of new Set(place.shapes.flatMap(partsOf))) {
      const holders = inside.get(part);
      if (holders === undefined) inside.set(part, [place]);
      else holders.push(place);
    }
  }
  return inside;
}

/** Places inside of a shape. */
export function partsOf(shape: Shape): readonly Place[] {
  if (shape.kind === "array") return [...shape.prefix, shape.items];
  if (shape.kind !== "object") return [];
  const extra = shape.extra === null ? [] : [shape.extra];
  return [...shape.properties.map((property) => property.place), ...extra];
}

function isPossible(shape: Shape, possible: ReadonlySet<Place>): boolean {
  switch (shape.kind) {
    case "values":
      return shape.values.length > 0;
    case "array": {
      const needed = [...shape.prefix.slice(0, shape.minItems)];
      if (shape.minItems > shape.prefix.length) needed.push(shape.items);
      return needed.every((place) => possible.has(place));
    }
    case "object": {
      const needed = shape.properties.filter((property) => property.required);
      if (!needed.every((property) => possible.has(property.place))) return false;
      const some = shape.properties.some(({ place }) => possible.has(place));
      return !shape.notEmpty || some || (shape.extra !== null && possible.has(shape.extra));
    }
    default:
      return true;
  }
}

function pruned(shape: Shape, possible: ReadonlySet<Place>): Shape {
  if (shape.kind === "array") {
    const end = shape.prefix.findIndex((place) => !possible.has(place));
    const itemsEnd = possible.has(shape.items) ? null : shape.prefix.length;
    const reach = end >= 0 ? end : itemsEnd;
    return reach === null ? shape : { ...shape, maxItems: Math.min(reach, shape.maxItems ?? reach) };
  }
  if (shape.kind !== "object") return shape;
  return {
    ...shape,
    properties: shape.properties.filter(({ place }) => possible.has(place)),
    extra: shape.extra !== null && possible.has(shape.extra) ? shape.extra : null,
  };
}

/**
 * An engine follows every alternative of a union at once until the text tells them apart. Where such unions lie inside
 * of each other before that, the number of paths multiplies with each level, so it is bounded here.
 */
const pathsMax = 64;

/** Alternatives of one place that are objects or arrays. */
const compoundsMax = 128;

type Compound = ObjectShape | ArrayShape;

/** Refuses (strict) or cuts to the first alternative (lenient) what would take too many paths. Changes the places. */
export function limitPaths(places: readonly Place[], mode: SchemaMode): void {
  for (const place of places) limitCompounds(place, mode);
  const holders = placesWith(places);
  const paths = new Map<Place, number>();
  const todo = [...places];
  for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
    const known = paths.get(place) ?? 1;
    let count = pathsOf(place, paths);
    if (count > pathsMax) {
      if (mode === "strict") throw new SchemaUnsupported("", tooAlike);
      place.shapes = firstOfEachGroup(place.shapes);
      count = Math.min(pathsMax, pathsOf(place, paths));
    }
    if (count <= known) continue;
    paths.set(place, count);
    todo.push(...(holders.get(place) ?? []));
  }
}

const tooAlike =
  "alternatives that begin alike lie inside of each other, which takes too many paths to follow; give each a required first property with a 'const' of its own.";

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

function firstOfEachGroup(shapes: readonly Shape[]): readonly Shape[] {
  const kept = new Set<Shape>(groupsOf(shapes).flatMap((group) => group.slice(0, 1)));
  return shapes.filter((shape) => !isCompound(shape) || kept.has(shape));
}

/** Objects and arrays in groups of those that can begin alike. */
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
  for (const [name, place] of left.places) {
    const other = right.places.get(name);
    if (other !== undefined && !haveDifferentValues(place, other)) return true;
  }
  return false;
}

/** Properties that an object can begin with; `open`: also ones that are not listed. */
function firstProperties(shape: ObjectShape): {
  readonly places: ReadonlyMap<string, Place>;
  readonly open: boolean;
} {
  const firstRequired = shape.properties.findIndex((property) => property.required);
  const first = firstRequired < 0 ? shape.properties : shape.properties.slice(0, firstRequired + 1);
  return {
    places: new Map(first.map(({ name, place }) => [name, place])),
    open: firstRequired < 0 && shape.extra !== null,
  };
}

function haveDifferentValues(a: Place, b: Place): boolean {
  const [left, right] = [listedTexts(a), listedTexts(b)];
  return left !== null && right !== null && ![...left].some((text) => right.has(text));
}

function listedTexts(place: Place): Set<string> | null {
  const texts = new Set<string>();
  for (const shape of place.shapes) {
    if (shape.kind !== "values") return null;
    for (const value of shape.values) texts.add(comparable(value));
  }
  return texts;
}
