/** `strict` refuses what the grammar cannot enforce; `lenient` leaves it out of the grammar and of the check. */
export type SchemaMode = "strict" | "lenient";

export type SchemaObject = Readonly<Record<string, unknown>>;
export type Schema = SchemaObject | boolean;

/** The service bounds schemas more tightly at its doors; these keep the compiler safe whoever calls it. */
const valuesMax = 4_000;
const depthMax = 64;

const halfCharacter = /\p{Surrogate}/u;

/** One JSON Schema document: where its parts stand, what its references mean and which keywords were given up. */
export class SchemaDocument {
  readonly root: Schema;
  readonly mode: SchemaMode;
  readonly #pointers = new Map<object, string>();
  readonly #dropped = new Map<object, Set<string>>();

  /** Throws SchemaUnsupported when the schema is no schema, has more than 4,000 values or more than 64 levels. */
  constructor(schema: unknown, mode: SchemaMode) {
    this.mode = mode;
    if (!isSchema(schema)) throw new SchemaUnsupported("", "it must be a JSON object or a boolean.");
    this.root = schema;
    this.#locate(schema);
  }

  refuse(schema: SchemaObject, why: string): never {
    throw new SchemaUnsupported(this.#pointers.get(schema) ?? "", why);
  }

  /** Refuses a keyword in strict mode; notes it as given up in lenient mode. */
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

  /** A whole number of 0 or more; null when the keyword is absent. */
  readCount(schema: SchemaObject, keyword: string): number | null {
    const value = this.read(schema, keyword);
    if (value === undefined) return null;
    if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
      this.refuse(schema, `'${keyword}' must be a whole number of 0 or more.`);
    }
    return value;
  }

  readNumber(schema: SchemaObject, keyword: string): number | null {
    const value = this.read(schema, keyword);
    if (value === undefined) return null;
    if (typeof value !== "number" || !Number.isFinite(value)) this.refuse(schema, `'${keyword}' must be a number.`);
    return value;
  }

  readSchema(schema: SchemaObject, keyword: string): Schema | null {
    const value = this.read(schema, keyword);
    if (value === undefined) return null;
    if (!isSchema(value)) this.refuse(schema, `'${keyword}' must be a schema.`);
    return value;
  }

  readSchemas(schema: SchemaObject, keyword: string): readonly Schema[] | null {
    const value = this.read(schema, keyword);
    if (value === undefined) return null;
    if (!Array.isArray(value) || !value.every(isSchema)) this.refuse(schema, `'${keyword}' must be a list of schemas.`);
    return value;
  }

  /** Texts of `required`, without repetitions. */
  readNames(schema: SchemaObject, keyword: string): readonly string[] {
    const value = this.read(schema, keyword);
    if (value === undefined) return [];
    if (!Array.isArray(value) || !value.every((name) => typeof name === "string")) {
      this.refuse(schema, `'${keyword}' must be a list of names.`);
    }
    return [...new Set<string>(value)];
  }

  /** The own members of `properties`. */
  readProperties(schema: SchemaObject): readonly (readonly [name: string, schema: Schema])[] {
    const value = this.read(schema, "properties");
    if (value === undefined) return [];
    if (!isSchema(value) || typeof value === "boolean")
      this.refuse(schema, "'properties' must be an object of schemas.");
    const members = Object.entries(value);
    for (const [name, member] of members) {
      if (!isSchema(member)) this.refuse(schema, `the property ${JSON.stringify(name)} must be a schema.`);
    }
    return members as [string, Schema][];
  }

  /** What `$ref` refers to; null when there is none, or when it was given up. */
  resolveReference(schema: SchemaObject): Schema | null {
    const reference = this.read(schema, "$ref");
    if (reference === undefined) return null;
    if (typeof reference !== "string") this.refuse(schema, "'$ref' must be a text.");
    if (reference !== "#" && !reference.startsWith("#/")) {
      this.giveUp(schema, "$ref", "can only be a JSON pointer into the same schema, such as '#/$defs/name'");
      return null;
    }
    const target = this.#follow(schema, reference.slice(1));
    if (!isSchema(target)) this.refuse(schema, `'$ref' points to nothing that is a schema.`);
    return target;
  }

  #follow(schema: SchemaObject, pointer: string): unknown {
    let value: unknown = this.root;
    for (const step of this.#decode(schema, pointer).split("/").slice(1)) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
      value = (value as Record<string, unknown>)[name];
    }
    return value;
  }

  #decode(schema: SchemaObject, pointer: string): string {
    try {
      return decodeURIComponent(pointer);
    } catch {
      return this.refuse(schema, "'$ref' has a percent sign that begins no escape.");
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
        if (halfCharacter.test(name)) throw new SchemaUnsupported(at.pointer, "a name in it holds half a character.");
        const step = name.replaceAll("~", "~0").replaceAll("/", "~1");
        todo.push({ value, pointer: `${at.pointer}/${step}`, depth: at.depth + 1 });
      }
    }
  }
}

export function isSchema(value: unknown): value is Schema {
  return typeof value === "boolean" || (typeof value === "object" && value !== null && !Array.isArray(value));
}

/** A JSON Schema that cannot be turned into a grammar. The message is public: it names the place, the cause and the fix. */
export class SchemaUnsupported extends Error {
  override readonly name = "SchemaUnsupported";
  /** JSON pointer to the schema inside the document that was given; empty for the whole of it. */
  readonly path: string;

  constructor(path: string, why: string) {
    super(`The JSON Schema ${path === "" ? "" : `at '${shortened(path)}' `}cannot be used: ${why}`);
    this.path = path;
  }
}

const pathCharsShown = 200;

function shortened(path: string): string {
  return path.length <= pathCharsShown ? path : `${path.slice(0, pathCharsShown)}…`;
}
