import { giveUpUnenforceable, keywordTypes } from "./keywords.js";
import { isSchema, type Schema, type SchemaDocument, type SchemaObject } from "./schema-document.js";

/**
 * Schemas that a value must satisfy together, each read without its references and combinations: those are already
 * worked into the set. The empty set allows any value. Equal sets have equal keys.
 */
export interface FacetSet {
  readonly key: string;
  readonly schemas: readonly SchemaObject[];
}

/** Alternatives of one place, and of all places that were asked for together. */
const perPlaceMax = 2_000;
const totalMax = 40_000;

const ownKeywords = ["type", "enum", "const", ...keywordTypes.keys()];

/**
 * Takes `$ref`, `allOf`, `anyOf` and `oneOf` out of schemas: a value is valid where it satisfies one of the returned
 * sets. Working this out once, without repetitions, keeps nested unions from multiplying inside the grammar.
 */
export class Alternatives {
  readonly #document: SchemaDocument;
  readonly #known = new Map<SchemaObject, readonly FacetSet[]>();
  readonly #underWay = new Set<SchemaObject>();
  readonly #ids = new Map<SchemaObject, number>();
  #total = 0;

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** What satisfies all of the schemas. Throws SchemaUnsupported. */
  ofAll(schemas: readonly Schema[]): readonly FacetSet[] {
    let sets: readonly FacetSet[] = [anything];
    for (const schema of schemas) sets = this.#both(sets, this.#of(schema), schema);
    return sets;
  }

  #of(schema: Schema): readonly FacetSet[] {
    if (schema === true) return [anything];
    if (schema === false) return [];
    const known = this.#known.get(schema);
    if (known !== undefined) return known;
    if (this.#underWay.has(schema)) {
      this.#document.refuse(schema, "it refers to itself without describing any value in between.");
    }
    this.#underWay.add(schema);
    giveUpUnenforceable(this.#document, schema);
    const sets = this.#expand(schema);
    this.#underWay.delete(schema);
    this.#known.set(schema, sets);
    return sets;
  }

  #expand(schema: SchemaObject): readonly FacetSet[] {
    let sets: readonly FacetSet[] = [this.#own(schema)];
    const target = this.#document.resolveReference(schema);
    if (target !== null) sets = this.#both(sets, this.#of(target), schema);
    for (const part of this.#document.readSchemas(schema, "allOf") ?? []) {
      sets = this.#both(sets, this.#of(part), schema);
    }
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = this.#document.readSchemas(schema, keyword);
      if (branches === null) continue;
      if (keyword === "oneOf" && this.#document.mode === "strict") this.#document.refuse(schema, oneOfRefused);
      sets = this.#both(sets, this.#unite(branches), schema);
    }
    return sets;
  }

  #own(schema: SchemaObject): FacetSet {
    if (!ownKeywords.some((keyword) => this.#document.read(schema, keyword) !== undefined)) return anything;
    return { key: String(this.#idOf(schema)), schemas: [schema] };
  }

  #unite(branches: readonly Schema[]): readonly FacetSet[] {
    const united = new Map<string, FacetSet>();
    for (const branch of branches) for (const set of this.#of(branch)) united.set(set.key, set);
    return [...united.values()];
  }

  #both(left: readonly FacetSet[], right: readonly FacetSet[], schema: Schema): readonly FacetSet[] {
    if (isOnlyAnything(left)) return this.#bounded(right, schema);
    if (isOnlyAnything(right)) return left;
    const combined = new Map<string, FacetSet>();
    for (const a of left) {
      for (const b of right) {
        const set = this.#combine(a, b);
        combined.set(set.key, set);
        if (combined.size > perPlaceMax) this.#bounded([...combined.values()], schema);
      }
    }
    return this.#bounded([...combined.values()], schema);
  }

  #combine(a: FacetSet, b: FacetSet): FacetSet {
    const schemas = [...new Set([...a.schemas, ...b.schemas])];
    const ids = schemas.map((schema) => this.#idOf(schema)).sort((x, y) => x - y);
    return { key: ids.join(" "), schemas };
  }

  #bounded(sets: readonly FacetSet[], schema: Schema): readonly FacetSet[] {
    this.#total += sets.length;
    if (sets.length <= perPlaceMax && this.#total <= totalMax) return sets;
    const place = isSchema(schema) && typeof schema === "object" ? schema : {};
    return this.#document.refuse(place, `its combinations make more than ${perPlaceMax} alternatives; use fewer.`);
  }

  #idOf(schema: SchemaObject): number {
    const id = this.#ids.get(schema) ?? this.#ids.size;
    this.#ids.set(schema, id);
    return id;
  }
}

/** A grammar lets every branch through, so it cannot keep a value from matching two of them. */
const oneOfRefused = "'oneOf' cannot be enforced while text is generated; use 'anyOf'.";

const anything: FacetSet = { key: "", schemas: [] };

function isOnlyAnything(sets: readonly FacetSet[]): boolean {
  return sets.length === 1 && sets[0]?.key === "";
}
