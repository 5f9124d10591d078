import type { Alternatives, FacetSet, OneOfSite } from "./alternatives.js";
import { explicitTypes, type JsonType } from "./keywords.js";
import { comparable, isOfType, listedValues } from "./listed-values.js";
import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";

/** Pairs of branches that are compared for one schema; 400 branches have fewer. */
const pairsMax = 80_000;

/**
 * Refuses each `oneOf` whose branches might hold for the same value: a grammar lets every branch through, so it keeps
 * "exactly one" only where no value has two. Branches are told apart by type, by listed values, by a required property
 * with different values, or by a required property that the other one forbids.
 */
export function checkOneOf(document: SchemaDocument, alternatives: Alternatives): void {
  let pairs = 0;
  for (const site of alternatives.oneOfSites) {
    const branches = site.branches.map((branch) =>
      alternatives.ofAll([branch]).map((set) => factsOf(document, alternatives, site, set)),
    );
    for (const [index, branch] of branches.entries()) {
      for (const other of branches.slice(index + 1)) {
        pairs += branch.length * other.length;
        if (pairs > pairsMax) document.refuse(site.schema, "'oneOf' has too many branches to compare; use 'anyOf'.");
        if (branch.every((a) => other.every((b) => areDisjoint(a, b)))) continue;
        document.refuse(
          site.schema,
          "branches of 'oneOf' may hold for the same value, which cannot be ruled out while text is generated; tell them apart by a required property with a 'const' of its own, or use 'anyOf'.",
        );
      }
    }
  }
}

interface Facts {
  readonly types: readonly JsonType[] | null;
  readonly values: ReadonlyMap<string, unknown> | null;
  /** Required properties, each with the values that it may have; null: not listed. */
  readonly required: ReadonlyMap<string, ReadonlySet<string> | null>;
  /** Names that are allowed, of each schema that allows no others. */
  readonly closed: readonly ReadonlySet<string>[];
}

function factsOf(document: SchemaDocument, alternatives: Alternatives, site: OneOfSite, { schemas }: FacetSet): Facts {
  const values = listedValues(document, schemas);
  const required = new Set(schemas.flatMap((schema) => document.readNames(schema, "required")));
  return {
    types: explicitTypes(document, [...schemas, site.schema]),
    values: values === null ? null : new Map(values.map((value) => [comparable(value), value])),
    required: new Map([...required].map((name) => [name, propertyValues(document, alternatives, schemas, name)])),
    closed: schemas
      .filter((schema) => document.read(schema, "additionalProperties") === false)
      .map((schema) => new Set(document.readProperties(schema).map(([name]) => name))),
  };
}

function propertyValues(
  document: SchemaDocument,
  alternatives: Alternatives,
  schemas: readonly SchemaObject[],
  name: string,
): ReadonlySet<string> | null {
  const parts: Schema[] = schemas.flatMap((schema) =>
    document.readProperties(schema).flatMap(([own, part]) => (own === name ? [part] : [])),
  );
  const texts = new Set<string>();
  for (const set of alternatives.ofAll(parts)) {
    const values = listedValues(document, set.schemas);
    if (values === null) return null;
    for (const value of values) texts.add(comparable(value));
  }
  return texts;
}

function areDisjoint(a: Facts, b: Facts): boolean {
  if (a.values !== null && b.values !== null) return isDisjoint(a.values, b.values);
  if (a.values !== null) return hasNoneOf(b.types, a.values);
  if (b.values !== null) return hasNoneOf(a.types, b.values);
  if (a.types === null || b.types === null) return false;
  if (!a.types.some((type) => b.types?.some((other) => overlap(type, other)))) return true;
  return isOnlyObject(a) && isOnlyObject(b) && (differByValue(a, b) || forbids(a, b) || forbids(b, a));
}

function hasNoneOf(types: readonly JsonType[] | null, values: ReadonlyMap<string, unknown>): boolean {
  return types !== null && [...values.values()].every((value) => !types.some((type) => isOfType(value, type)));
}

function isDisjoint(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  return ![...a.keys()].some((text) => b.has(text));
}

function overlap(a: JsonType, b: JsonType): boolean {
  return a === b || (a === "integer" && b === "number") || (a === "number" && b === "integer");
}

function isOnlyObject({ types }: Facts): boolean {
  return types?.length === 1 && types[0] === "object";
}

function differByValue(a: Facts, b: Facts): boolean {
  for (const [name, values] of a.required) {
    const others = b.required.get(name);
    if (values && others && ![...values].some((text) => others.has(text))) return true;
  }
  return false;
}

/** Whether some property that `b` requires is not allowed by `a`. */
function forbids(a: Facts, b: Facts): boolean {
  return a.closed.some((names) => [...b.required.keys()].some((name) => !names.has(name)));
}
