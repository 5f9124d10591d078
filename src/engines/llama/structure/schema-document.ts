import { isObject } from "../../../lib/json-string.js";
/** `strict` refuses keywords that the grammar cannot enforce; `lenient` leaves them out of the grammar and the check. */
export type SchemaMode = "strict" | "lenient";

export type SchemaObject = Readonly<Record<string, unknown>>;
export type Schema = SchemaObject | boolean;

/** Requests are validated against tighter bounds; these bounds protect the compiler from other callers. */
const valuesMax = 4_000;
const depthMax = 64;

const halfCharacter = /\p{Surrogate}/u;

/** One JSON Schema document: the locations of its parts, its references and the keywords that were given up. */
export class SchemaDocument {
  readonly root: Schema;
  readonly mode: SchemaMode;
  readonly #pointers = new Map<object, string>();
  readonly #dropped = new Map<object, Set<string>>();

  /** Throws SchemaUnsupported when `schema` is not a schema, has more than 4,000 values or more than 64 levels. */
  constructor(schema: unknown, mode: SchemaMode) {
    this.mode = mode;
    if (!isSchema(schema)) throw new SchemaUnsupported("", "it must be a JSON object or a boolean.");
    this.root = schema;
    this.#locate(schema);
  }

  refuse(schema: SchemaObject, why: string): never {
    throw new SchemaUnsupported(this.#pointers.get(schema) ?? "", why);
  }

  /** Refuses a keyword in strict mode; in lenient mode `read` no longer finds it. */
  giveUp(schema: SchemaObject, keyword: string, why: string): void {
    if (this.mode === "strict") {
      this.refuse(schema, `'${keyword}' ${why}; remove it, or do not ask for strict adherence.`);
    }
    const keywords = this.#dropped.get(schema) ?? new Set();
    this.#dropped.set(schema, keywords.add(keyword));
  }

  /** The keyword's value; undefined when it is absent or was given up. */
  read(schema: SchemaObject, keyword: string): unknown {
    if (this.#dropped.get(schema)?.has(keyword)) return undefined;
    return Object.hasOwn(schema, keyword) ? schema[keyword] : undefined;
  }

  /** A whole number of 0 or more; null when the keyword is absent, as with all readers below. */
  readCount(schema: SchemaObject, keyword: string): number | null {
    return this.#readAs(schema, keyword, isCount, "a whole number of 0 or more");
  }

  readNumber(schema: SchemaObject, keyword: string): number | null {
    return this.#readAs(schema, keyword, isFiniteNumber, "a number");
  }

  readSchema(schema: SchemaObject, keyword: string): Schema | null {
    return this.#readAs(schema, keyword, isSchema, "a schema");
  }

  readSchemas(schema: SchemaObject, keyword: string): readonly Schema[] | null {
    return this.#readAs(schema, keyword, isSchemas, "a list of schemas");
  }

  /** Texts of a list, without repetitions. */
  readNames(schema: SchemaObject, keyword: string): readonly string[] {
    return [...new Set(this.#readAs(schema, keyword, isTexts, "a list of names"))];
  }

  /** The members of `properties`, without inherited ones. */
  readProperties(schema: SchemaObject): readonly (readonly [name: string, schema: Schema])[] {
    const members = Object.entries(this.#readAs(schema, "properties", isObject, "an object of schemas") ?? {});
    for (const [name, member] of members) {
      if (!isSchema(member)) this.refuse(schema, `the property ${JSON.stringify(name)} must be a schema.`);
    }
    return members as [string, Schema][];
  }

  #readAs<T>(schema: SchemaObject, keyword: string, is: (value: unknown) => value is T, form: string): T | null {
    const value = this.read(schema, keyword);
    if (value === undefined) return null;
    if (!is(value)) this.refuse(schema, `'${keyword}' must be ${form}.`);
    return value;
  }

  /** The target of `$ref`; null when there is none, or when it was given up. */
  resolveReference(schema: SchemaObject): Schema | null {
    const reference = this.#readAs(schema, "$ref", isText, "a text");
    if (reference === null) return null;
    if (reference !== "#" && !reference.startsWith("#/")) {
      this.giveUp(schema, "$ref", "can only be a JSON pointer into the same schema, such as '#/$defs/name'");
      return null;
    }
    let target: unknown = this.root;
    for (const step of this.#decoded(schema, reference).split("/").slice(1)) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      const isThere = typeof target === "object" && target !== null && Object.hasOwn(target, name);
      target = isThere ? (target as Record<string, unknown>)[name] : undefined;
    }
    if (!isSchema(target)) this.refuse(schema, "'$ref' does not point to a schema.");
    return target;
  }

  #decoded(schema: SchemaObject, reference: string): string {
    try {
      return decodeURIComponent(reference.slice(1));
    } catch {
      return this.refuse(schema, "'$ref' has an invalid percent escape.");
    }
  }

  #locate(root: Schema): void {
    const todo: { readonly value: unknown; readonly pointer: string; readonly depth: number }[] = [];
    let values = 0;
    for (let at: (typeof todo)[number] | undefined = { value: root, pointer: "", depth: 1 }; at; at = todo.pop()) {
      values++;
      if (values > valuesMax) throw new SchemaUnsupported("", `it has more than ${valuesMax} values.`);
      if (typeof at.value !== "object" || at.value === null) continue;
      if (at.depth > depthMax) throw new SchemaUnsupported("", `it has more than ${depthMax} levels.`);
      this.#pointers.set(at.value, at.pointer);
      for (const [name, value] of Object.entries(at.value)) {
        if (halfCharacter.test(name))
          throw new SchemaUnsupported(at.pointer, "a name in it has half of a surrogate pair.");
        const step = name.replaceAll("~", "~0").replaceAll("/", "~1");
        todo.push({ value, pointer: `${at.pointer}/${step}`, depth: at.depth + 1 });
      }
    }
  }
}

export const isSchema = (value: unknown): value is Schema => typeof value === "boolean" || isObject(value);

const isSchemas = (value: unknown): value is Schema[] => Array.isArray(value) && value.every(isSchema);
const isText = (value: unknown): value is string => typeof value === "string";
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);
const isFiniteNumber = (value: unknown): value is number => Number.isFinite(value);
const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0;

/** A JSON Schema that has no grammar. The message is public: it names the location, the cause and the fix. */
export class SchemaUnsupported extends Error {
  override readonly name = "SchemaUnsupported";
  /** JSON pointer to the schema inside the document; empty for the whole document. */
  readonly path: string;

  constructor(path: string, why: string) {
    const shown = path.length <= pathCharsShown ? path : `${path.slice(0, pathCharsShown)}…`;
    super(`The JSON Schema ${path === "" ? "" : `at '${shown}' `}cannot be used: ${why}`);
    this.path = path;
  }
}

const pathCharsShown = 200;
