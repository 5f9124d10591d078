import { itemSchemas } from "./read-array.js";
import { isSchema, type Schema, type SchemaDocument, type SchemaObject } from "./schema-document.js";
import type { SchemaPlan } from "./schema-plan.js";
import { stringFormat } from "./string-format.js";

const plainKeywords = [
  "type",
  "enum",
  "const",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "minItems",
  "maxItems",
  "minProperties",
  "maxProperties",
];

/**
 * The schema as its grammar enforces it: only keywords that are enforced, none that was given up, in the spelling of
 * draft 2020-12 and with every reference's target under `$defs`.
 */
export function checkedSchema({ document }: SchemaPlan): SchemaObject {
  const copy = new SchemaCopy(document);
  return copy.whole();
}

class SchemaCopy {
  readonly #document: SchemaDocument;
  readonly #targets = new Map<SchemaObject, string>();
  readonly #uncopied: SchemaObject[] = [];

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  whole(): SchemaObject {
    const $ref = this.#refer(this.#document.root);
    const definitions: Record<string, unknown> = {};
    for (let next = this.#uncopied.pop(); next !== undefined; next = this.#uncopied.pop()) {
      definitions[this.#targets.get(next) ?? ""] = this.#inside(next);
    }
    return { ...$ref, $defs: definitions };
  }

  /** A reference to a copy that stands under `$defs`. */
  #refer(schema: Schema): SchemaObject {
    if (typeof schema === "boolean") return schema ? {} : { not: {} };
    let name = this.#targets.get(schema);
    if (name === undefined) {
      name = `s${this.#targets.size}`;
      this.#targets.set(schema, name);
      this.#uncopied.push(schema);
    }
    return { $ref: `#/$defs/${name}` };
  }

  #copy(schema: Schema): Schema {
    if (typeof schema === "boolean") return schema;
    return this.#targets.has(schema) ? this.#refer(schema) : this.#inside(schema);
  }

  #inside(schema: SchemaObject): SchemaObject {
    const document = this.#document;
    const out: Record<string, unknown> = {};
    for (const keyword of plainKeywords) {
      const value = document.read(schema, keyword);
      if (value !== undefined) out[keyword] = value;
    }
    if (Array.isArray(out["enum"]) && out["enum"].length === 0) return { not: {} };
    const format = document.read(schema, "format");
    if (typeof format === "string" && stringFormat(format) !== null) out["format"] = format;
    const parts: Schema[] = (document.readSchemas(schema, "allOf") ?? []).map((part) => this.#copy(part));
    const target = document.resolveReference(schema);
    if (target !== null) parts.push(this.#refer(target));
    if (parts.length > 0) out["allOf"] = parts;
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = document.readSchemas(schema, keyword);
      if (branches === null) continue;
      // Only strict mode makes sure that a value has one branch.
      const copies = branches.map((branch) => this.#copy(branch));
      if (keyword === "oneOf" && document.mode === "lenient") out["allOf"] = [...parts, { anyOf: copies }];
      else out[keyword] = copies;
    }
    this.#copyItems(schema, out);
    this.#copyProperties(schema, out);
    return out;
  }

  #copyItems(schema: SchemaObject, out: Record<string, unknown>): void {
    const { prefix, rest } = itemSchemas(this.#document, schema);
    if (prefix.length > 0) out["prefixItems"] = prefix.map((item) => this.#copy(item));
    if (rest !== null) out["items"] = this.#copy(rest);
  }

  #copyProperties(schema: SchemaObject, out: Record<string, unknown>): void {
    const document = this.#document;
    const properties = document.readProperties(schema).filter(([name]) => name !== "__proto__");
    if (properties.length > 0) {
      out["properties"] = Object.fromEntries(properties.map(([name, part]) => [name, this.#copy(part)]));
    }
    const required = document.readNames(schema, "required").filter((name) => name !== "__proto__");
    if (required.length > 0) out["required"] = required;
    const additional = document.read(schema, "additionalProperties");
    if (isSchema(additional)) out["additionalProperties"] = this.#copy(additional);
  }
}
