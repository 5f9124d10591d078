import { giveUpUnenforceable, keywordTypes } from "./keywords.js";
import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";

/**
 * Schemas that a value must satisfy together, each read without its references and combinations, which are already
 * merged into the set. The empty set allows any value. Equal sets have equal keys.
 */
export interface FacetSet {
  readonly key: string;
  readonly schemas: readonly SchemaObject[];
}

/** Maximum alternatives of one place, and of all places together. */
const perPlaceMax = 2_000;
const totalMax = 40_000;

const ownKeywords = ["type", "enum", "const", ...keywordTypes.keys()];

/**
 * Resolves `$ref`, `allOf`, `anyOf` and `oneOf`: a value is valid where it satisfies one of the returned sets. Each set
 * exists once, which keeps nested unions from multiplying inside the grammar.
 */
export class Alternatives {
  readonly #document: SchemaDocument;
  readonly #known = new Map<SchemaObject, readonly FacetSet[]>();
  readonly #expanding = new Set<SchemaObject>();
  readonly #ids = new Map<SchemaObject, number>();
  #total = 0;

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** The sets that satisfy all of the schemas. Throws SchemaUnsupported. */
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
    if (this.#expanding.has(schema)) {
      this.#document.refuse(schema, "it refers to itself before it describes any value.");
    }
    this.#expanding.add(schema);
    giveUpUnenforceable(this.#document, schema);
    const sets = this.#expand(schema);
    this.#expanding.delete(schema);
    this.#known.set(schema, sets);
    return sets;
  }

  #expand(schema: SchemaObject): readonly FacetSet[] {
    const document = this.#document;
    const isRestricting = ownKeywords.some((keyword) => document.read(schema, keyword) !== undefined);
    let sets: readonly FacetSet[] = [isRestricting ? { key: String(this.#idOf(schema)), schemas: [schema] } : anything];
    const target = document.resolveReference(schema);
    const required = [...(target === null ? [] : [target]), ...(document.readSchemas(schema, "allOf") ?? [])];
    for (const part of required) sets = this.#both(sets, this.#of(part), schema);
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = document.readSchemas(schema, keyword);
      if (branches === null) continue;
      if (keyword === "oneOf" && document.mode === "strict") document.refuse(schema, oneOfRefused);
      const united = new Map(branches.flatMap((branch) => this.#of(branch)).map((set) => [set.key, set]));
      sets = this.#both(sets, [...united.values()], schema);
    }
    return sets;
  }

  #both(left: readonly FacetSet[], right: readonly FacetSet[], schema: Schema): readonly FacetSet[] {
    if (isOnlyAnything(left)) return this.#bounded(right, schema);
    if (isOnlyAnything(right)) return left;
    const combined = new Map<string, FacetSet>();
    for (const a of left) {
      for (const b of right) {
        const schemas = [...new Set([...a.schemas, ...b.schemas])];
        const ids = schemas.map((each) => this.#idOf(each)).sort((x, y) => x - y);
        combined.set(ids.join(" "), { key: ids.join(" "), schemas });
        if (combined.size > perPlaceMax) this.#bounded([...combined.values()], schema);
      }
    }
    return this.#bounded([...combined.values()], schema);
  }

  #bounded(sets: readonly FacetSet[], schema: Schema): readonly FacetSet[] {
    this.#total += sets.length;
    if (sets.length <= perPlaceMax && this.#total <= totalMax) return sets;
    return this.#document.refuse(
      typeof schema === "object" ? schema : {},
      `its combinations have more than ${perPlaceMax} alternatives, or all of the schema more than ${totalMax}; use fewer.`,
    );
  }

  #idOf(schema: SchemaObject): number {
    const id = this.#ids.get(schema) ?? this.#ids.size;
    this.#ids.set(schema, id);
    return id;
  }
}

/** A grammar allows every branch, so it cannot prevent that a value matches two of them. */
const oneOfRefused = "'oneOf' cannot be enforced while text is generated; use 'anyOf'.";

const anything: FacetSet = { key: "", schemas: [] };

function isOnlyAnything(sets: readonly FacetSet[]): boolean {
  return sets.length === 1 && sets[0]?.key === "";
}
