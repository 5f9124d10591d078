import { seededPick } from "../random-numbers.js";

type JsonSchema = Record<string, unknown>;

export interface RandomSchema {
  /** An object schema of the supported subset; it allows no unlisted properties, and every length is bounded. */
  readonly schema: JsonSchema;
  /** Upper bound in bytes of the texts of its grammar, for `max_tokens`. */
  readonly longestBytes: number;
}

interface Part {
  readonly schema: JsonSchema;
  readonly bytes: number;
}

/** A schema that is always the same for a seed, and whose longest value stays below `bytesMax`. */
export function randomSchema(seed: number, bytesMax = 1_500): RandomSchema {
  for (let attempt = 0; ; attempt++) {
    const { schema, bytes } = new Generator(seed * 1_009 + attempt).whole();
    if (bytes <= bytesMax) return { schema, longestBytes: bytes };
  }
}

/** A code point is at most a pair of escapes, each of six bytes. */
const bytesPerCharacter = 12;

const names = [
  "city",
  "unit",
  "Größe",
  'a "b"',
  "line\nend",
  "date",
  "n",
  "constructor",
  "toString",
  "🙂",
  "x-y",
  "tab\t",
];
const words = ["red", "green", "blue", "c", "", "ja\nnein", "日本", '"quoted"', "back\\slash"];
const formats: readonly (readonly [name: string, bytes: number])[] = [
  ["date", 10],
  ["time", 24],
  ["date-time", 35],
  ["uuid", 36],
  ["ipv4", 15],
  ["email", 116],
];

class Generator {
  readonly #pick: (count: number) => number;
  readonly #definitions: Record<string, JsonSchema> = {};

  constructor(seed: number) {
    this.#pick = seededPick(seed);
  }

  whole(): Part {
    const root = this.#object(2);
    const definitions = Object.keys(this.#definitions).length === 0 ? {} : { $defs: this.#definitions };
    return { schema: { ...root.schema, ...definitions }, bytes: root.bytes };
  }

  #part(depth: number): Part {
    const leaf = [
      () => this.#string(),
      () => this.#format(),
      () => this.#integer(),
      () => this.#number(),
      () => this.#listed(),
      () => ({ schema: { type: "boolean" }, bytes: 5 }),
      () => ({ schema: { type: "null", title: "nothing" }, bytes: 4 }),
    ];
    const compound = [
      () => this.#object(depth - 1),
      () => this.#array(depth - 1),
      () => this.#tuple(depth - 1),
      () => this.#map(depth - 1),
      () => this.#union(depth - 1),
      () => this.#discriminated(depth - 1),
      () => this.#reference(depth - 1),
      () => this.#merged(depth - 1),
      () => this.#optionalText(),
    ];
    return this.#oneOf(depth > 0 ? [...leaf, ...compound] : leaf)();
  }

  #object(depth: number): Part {
    const chosen = this.#some(names, 5);
    const parts = chosen.map((name) => [name, this.#part(depth)] as const);
    const required = chosen.filter(() => this.#pick(3) > 0);
    const bytes = parts.reduce(
      (sum, [name, part]) => sum + Buffer.byteLength(JSON.stringify(name)) + 4 + part.bytes,
      2,
    );
    return {
      schema: {
        type: "object",
        properties: Object.fromEntries(parts.map(([name, part]) => [name, part.schema])),
        ...(required.length > 0 ? { required } : {}),
        additionalProperties: false,
      },
      bytes,
    };
  }

  #array(depth: number): Part {
    const item = this.#part(depth);
    const minItems = this.#pick(3);
    const maxItems = minItems + this.#pick(3);
    return {
      schema: { type: "array", items: item.schema, minItems, maxItems },
      bytes: 2 + maxItems * (item.bytes + 2),
    };
  }

  #tuple(depth: number): Part {
    const parts = Array.from({ length: 1 + this.#pick(3) }, () => this.#part(depth));
    const minItems = this.#pick(parts.length + 1);
    return {
      schema: { type: "array", prefixItems: parts.map((part) => part.schema), items: false, minItems },
      bytes: parts.reduce((sum, part) => sum + part.bytes + 2, 2),
    };
  }

  #map(depth: number): Part {
    const value = this.#part(depth);
    const maxProperties = 1 + this.#pick(2);
    return {
      schema: { type: "object", additionalProperties: value.schema, maxProperties, minProperties: this.#pick(2) },
      bytes: 2 + maxProperties * (value.bytes + 6 + 75 * 4),
    };
  }

  #union(depth: number): Part {
    const parts = Array.from({ length: 1 + this.#pick(3) }, () => this.#part(depth));
    return { schema: { anyOf: parts.map((part) => part.schema) }, bytes: Math.max(...parts.map((part) => part.bytes)) };
  }

  #discriminated(depth: number): Part {
    const branches = ["circle", "square"].map((kind) => {
      const part = this.#part(depth);
      return {
        schema: {
          type: "object",
          properties: { kind: { const: kind }, value: part.schema },
          required: ["kind", "value"],
          additionalProperties: false,
        },
        bytes: part.bytes + 40,
      };
    });
    return {
      schema: { anyOf: branches.map((branch) => branch.schema) },
      bytes: Math.max(...branches.map((branch) => branch.bytes)),
    };
  }

  #reference(depth: number): Part {
    const part = this.#part(depth);
    const name =
      this.#oneOf(["plain", "with/slash", "with~tilde", "with space%"]) + Object.keys(this.#definitions).length;
    this.#definitions[name] = part.schema;
    const step = encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"));
    return { schema: { $ref: `#/$defs/${step}`, description: "a reference" }, bytes: part.bytes };
  }

  #merged(depth: number): Part {
    const [left, right] = [this.#part(depth), this.#part(depth)];
    const schema = {
      allOf: [
        { type: "object", properties: { left: left.schema }, required: ["left"] },
        { type: "object", properties: { right: right.schema } },
      ],
    };
    return { schema, bytes: left.bytes + right.bytes + 30 };
  }

  #optionalText(): Part {
    const maxLength = this.#pick(9);
    return { schema: { type: ["string", "null"], maxLength }, bytes: 4 + maxLength * bytesPerCharacter };
  }

  #string(): Part {
    const minLength = this.#pick(4);
    const maxLength = minLength + this.#pick(12);
    return { schema: { type: "string", minLength, maxLength }, bytes: 2 + maxLength * bytesPerCharacter };
  }

  #format(): Part {
    const [format, bytes] = this.#oneOf(formats);
    return { schema: { type: "string", format }, bytes: bytes + 2 };
  }

  #integer(): Part {
    const minimum = this.#pick(4_000) - 2_000;
    const bounds = this.#oneOf<JsonSchema>([
      {},
      { minimum },
      { maximum: minimum },
      { minimum, maximum: minimum + this.#pick(5_000) },
      { exclusiveMinimum: minimum, exclusiveMaximum: minimum + 2 + this.#pick(20) },
    ]);
    return { schema: { type: "integer", ...bounds }, bytes: 17 };
  }

  #number(): Part {
    const minimum = (this.#pick(4_000) - 2_000) / this.#oneOf([1, 4, 10, 1_000]);
    const bounds = this.#oneOf<JsonSchema>([
      {},
      { minimum },
      { maximum: minimum },
      { minimum, maximum: minimum + this.#pick(500) / 8 },
      { exclusiveMinimum: minimum, maximum: minimum + 1 },
    ]);
    return { schema: { type: "number", ...bounds }, bytes: 37 };
  }

  #listed(): Part {
    const values = [
      ...this.#some<unknown>(words, 4),
      ...this.#some<unknown>([1, 12, -3.5, null, true, { a: [1, 2] }], 2),
    ];
    const bytes = Math.max(...values.map((value) => Buffer.byteLength(JSON.stringify(value)) * 2));
    return { schema: this.#pick(4) === 0 ? { const: values[0] } : { enum: values }, bytes };
  }

  /** One to `most` different items. */
  #some<Item>(items: readonly Item[], most: number): readonly Item[] {
    return [...new Set(Array.from({ length: 1 + this.#pick(most) }, () => this.#oneOf(items)))];
  }

  #oneOf<Item>(items: readonly Item[]): Item {
    return items[this.#pick(items.length)] as Item;
  }
}
