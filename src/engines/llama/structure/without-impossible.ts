import type { Place, Shape } from "./shape.js";

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
