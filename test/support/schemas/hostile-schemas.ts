type JsonSchema = Record<string, unknown> | boolean;

const count = 300;

/**
 * 300 schemas that break, or could break, compilers of grammars: deep, wide, endless, contradictory, misspelt. Each is JSON of
 * at most 64 KiB, 2,000 values and 32 levels, which the transports accept; most have an object at the top level, as tools
 * require.
 */
export function hostileSchemas(): readonly unknown[] {
  const schemas = [
    ...deep(),
    ...wide(),
    ...recursive(),
    ...ambiguous(),
    ...bounds(),
    ...names(),
    ...unenforceable(),
    ...malformed(),
    ...lists(),
  ].map(throughJson);
  const single = schemas.length;
  for (let index = 0; schemas.length < count; index++) {
    const schema = throughJson(combined(schemas.slice(0, single), index));
    if (isWithinLimits(schema)) schemas.push(schema);
  }
  return schemas.slice(0, count);
}

function isWithinLimits(schema: unknown): boolean {
  return JSON.stringify(schema).length <= 64 * 1024 && depthOf(schema) <= 32 && valuesOf(schema) <= 2_000;
}

/** Levels of arrays and objects. */
export function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** Values of any kind, the outermost included. */
export function valuesOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce<number>((sum, inner) => sum + valuesOf(inner), 1);
}

/** The schema as parsed from a request's JSON, in which `__proto__` is a name like any other. */
function throughJson(schema: unknown): unknown {
  return typeof schema === "string" ? JSON.parse(schema) : JSON.parse(JSON.stringify(schema));
}

function object(properties: Record<string, unknown>, more: Record<string, unknown> = {}): JsonSchema {
  return { type: "object", properties, ...more };
}

function conditional(condition: unknown, consequence: unknown): unknown {
  return JSON.parse(`{"if":${JSON.stringify(condition)},"then":${JSON.stringify(consequence)}}`);
}

function times<Item>(amount: number, item: (index: number) => Item): Item[] {
  return Array.from({ length: amount }, (_, index) => item(index));
}

function properties(amount: number, schema: (index: number) => unknown): Record<string, unknown> {
  return Object.fromEntries(times(amount, (index) => [`parameter_${index}`, schema(index)]));
}

function nested(levels: number, wrap: (inner: unknown) => unknown, core: unknown = { type: "string" }): unknown {
  return times(levels, (index) => index).reduce<unknown>((inner) => wrap(inner), core);
}

function deep(): unknown[] {
  return [
    nested(14, (inner) => object({ a: inner })),
    nested(14, (inner) => object({ a: inner }, { required: ["a"] })),
    nested(15, (inner) => ({ type: "array", items: inner })),
    nested(15, (inner) => ({ type: "array", items: inner, minItems: 1, maxItems: 1 })),
    nested(15, (inner) => ({ type: "array", items: inner, minItems: 2, maxItems: 9 })),
    nested(10, (inner) => ({ type: "array", items: inner, minItems: 1_000, maxItems: 1_500 })),
    nested(14, (inner) => ({ anyOf: [inner] })),
    nested(8, (inner) => ({ anyOf: [inner, inner] })),
    nested(9, (inner) => ({ oneOf: [inner, { type: "null" }] })),
    nested(14, (inner) => ({ allOf: [inner] })),
    nested(8, (inner) => ({ allOf: [inner, inner] })),
    nested(14, (inner) => ({ not: inner })),
    nested(8, (inner) => object({ a: inner, b: inner })),
    nested(7, (inner) => ({ anyOf: [object({ a: inner }), object({ a: inner, b: true })] })),
    nested(14, (inner) => ({ type: "object", additionalProperties: inner })),
    nested(14, (inner) => ({ type: "array", prefixItems: [inner], items: false })),
    nested(9, (inner) => conditional(inner, inner)),
  ];
}

function wide(): unknown[] {
  return [
    object(properties(94, () => ({ type: "string" }))),
    object(properties(94, () => ({ type: "string", maxLength: 40 }))),
    object(
      properties(94, () => ({ type: "string" })),
      { required: ["parameter_93"] },
    ),
    object(
      properties(94, () => ({ type: "string" })),
      { additionalProperties: { type: "integer" } },
    ),
    object(properties(48, () => ({ anyOf: [{ type: "string" }, { type: "null" }], default: null }))),
    object(properties(256, () => true)),
    object(properties(257, () => true)),
    object(properties(900, () => ({}))),
    object(properties(900, () => true)),
    object(
      properties(600, () => ({ type: "integer" })),
      { required: times(600, (index) => `parameter_${index}`) },
    ),
    { anyOf: times(900, (index) => ({ const: index })) },
    { oneOf: times(600, (index) => ({ const: index })) },
    { anyOf: times(300, (index) => object({ [`p${index}`]: true })) },
    { anyOf: times(120, (index) => object({ kind: { const: index } }, { required: ["kind"] })) },
    { oneOf: times(120, (index) => object({ kind: { const: index } }, { required: ["kind"] })) },
    { anyOf: times(100, () => object({ a: { type: "string" } })) },
    { allOf: times(400, (index) => ({ minLength: index })) },
    { allOf: times(12, (index) => ({ anyOf: [{ minLength: index }, { maxLength: index }] })) },
    { allOf: times(40, (index) => ({ anyOf: [{ minimum: index }, { maximum: index }, { type: "null" }] })) },
    { type: times(200, () => "string") },
    { type: ["string", "number", "integer", "boolean", "null", "array", "object"] },
  ];
}

function recursive(): unknown[] {
  const self = { $ref: "#" };
  const inDefs = (definitions: Record<string, unknown>, start: string) => ({
    $ref: `#/$defs/${start}`,
    $defs: definitions,
  });
  const ref = (name: string) => ({ $ref: `#/$defs/${name}` });
  return [
    self,
    { allOf: [self] },
    { anyOf: [self, self] },
    { anyOf: [self, { type: "string" }] },
    { not: self },
    object({ a: self }),
    object({ a: self }, { required: ["a"] }),
    object({ a: self, b: self }),
    object({ a: { anyOf: [self, { type: "null" }] } }, { required: ["a"] }),
    { type: "array", items: self },
    { type: "array", items: self, minItems: 1 },
    { type: "array", items: self, maxItems: 3 },
    { type: "object", additionalProperties: self },
    inDefs({ a: ref("b"), b: ref("a") }, "a"),
    inDefs({ a: ref("b"), b: ref("c"), c: { anyOf: [ref("a"), { type: "null" }] } }, "a"),
    inDefs({ a: object({ b: ref("b") }), b: object({ a: ref("a") }) }, "a"),
    inDefs({ a: object({ b: ref("b") }, { required: ["b"] }), b: object({ a: ref("a") }, { required: ["a"] }) }, "a"),
    inDefs({ tree: object({ left: ref("tree"), right: ref("tree"), value: { type: "number" } }) }, "tree"),
    inDefs(Object.fromEntries(times(400, (index) => [`d${index}`, ref(`d${index + 1}`)])), "d0"),
    inDefs(
      Object.fromEntries([...times(400, (index) => [`d${index}`, ref(`d${index + 1}`)]), ["d400", { type: "null" }]]),
      "d0",
    ),
    inDefs(
      fibonacci(60, (left, right) => ({ anyOf: [left, right] })),
      "d0",
    ),
    inDefs(
      fibonacci(60, (left, right) => ({ allOf: [left, right] })),
      "d0",
    ),
    inDefs(
      fibonacci(60, (left, right) => object({ a: left, b: right })),
      "d0",
    ),
    inDefs(
      fibonacci(60, (left, right) => ({ anyOf: [object({ a: left }), object({ a: right })] })),
      "d0",
    ),
    inDefs(
      fibonacci(60, (left, right) => ({ type: "array", prefixItems: [left, right] })),
      "d0",
    ),
    { $ref: "#/$defs/none" },
    { $ref: "#/properties/a", properties: { a: { type: "object" } } },
    { $ref: "https://example.com/schema.json" },
    { $ref: "#anchor", $defs: { a: { $anchor: "anchor", type: "string" } } },
    { $ref: "#/$defs/%" },
    { $ref: "#/$defs/__proto__" },
    { $ref: "#/constructor" },
    { $ref: 5 },
    { $dynamicRef: "#node", $dynamicAnchor: "node" },
    { allOf: [object({ a: self }), object({ a: { allOf: [self, object({ b: self })] } })] },
    object({ a: { allOf: [self, { properties: { b: self }, required: ["b"] }] } }),
  ];
}

/** Definitions that each refer to the next two. */
function fibonacci(amount: number, join: (left: unknown, right: unknown) => unknown): Record<string, unknown> {
  const ref = (index: number) => ({ $ref: `#/$defs/d${index}` });
  const definitions = times(amount, (index) => [`d${index}`, join(ref(index + 1), ref(index + 2))] as const);
  return {
    ...Object.fromEntries(definitions),
    [`d${amount}`]: { type: "string" },
    [`d${amount + 1}`]: { type: "null" },
  };
}

/** Unions whose alternatives differ only at their end. */
function ambiguous(): unknown[] {
  const self = { $ref: "#" };
  const end = { type: "null" };
  return [
    { anyOf: [object({ a: self }), object({ a: self, b: true }), end] },
    { anyOf: [object({ a: self }, { required: ["a"] }), object({ a: self, b: true }, { required: ["a"] }), end] },
    { anyOf: [{ type: "array", items: self }, { type: "array", items: self, maxItems: 2 }, end] },
    { anyOf: [{ type: "object", additionalProperties: self }, object({ a: self }), end] },
    { anyOf: [true, object({ a: self })] },
    { oneOf: [object({ a: self }), object({ a: self, b: true }), end] },
    { anyOf: times(60, (index) => object({ a: self, [`b${index}`]: true }, { required: ["a"] })) },
    { anyOf: times(40, (index) => ({ type: "string", minLength: index, maxLength: 1_000 + index })) },
    { anyOf: times(40, (index) => ({ type: "array", items: { type: "integer" }, minItems: index })) },
    { anyOf: times(60, (index) => ({ type: "integer", minimum: index * 3, maximum: 10 ** 14 + index })) },
    { type: "object", additionalProperties: self, properties: { a: self, aa: self, aaa: self } },
    { enum: times(300, (index) => "a".repeat(index % 200)) },
  ];
}

function bounds(): unknown[] {
  const huge = [1_999, 2_000, 2_001, 20_000, 1e6, 2 ** 31, 2 ** 53, 1e21, 1e300];
  const numbers = [0, 0.1, 1e-7, 1e-20, 5e-324, 1e15, -1e15, 2 ** 53, 1e300, -1e300, 123456.789];
  return [
    ...huge.map((size) => ({ type: "string", maxLength: size })),
    ...huge.map((size) => ({ type: "string", minLength: size })),
    ...huge.map((size) => ({ type: "array", items: { type: "integer" }, maxItems: size })),
    ...huge.slice(0, 5).map((size) => ({ type: "array", items: true, minItems: size, maxItems: size })),
    ...huge.slice(0, 5).map((size) => ({ type: "object", additionalProperties: true, maxProperties: size })),
    ...numbers.map((size) => ({ type: "number", minimum: size })),
    ...numbers.map((size) => ({ type: "number", exclusiveMaximum: size })),
    ...numbers.map((size) => ({ type: "integer", minimum: size, maximum: size })),
    ...numbers.map((size) => ({ type: "integer", exclusiveMinimum: -1e14, exclusiveMaximum: size })),
    { type: "integer", minimum: 5, maximum: 4 },
    { type: "number", minimum: 0.5, exclusiveMaximum: 0.5 },
    { type: "string", minLength: 5, maxLength: 4 },
    { type: "array", minItems: 5, maxItems: 4 },
    { type: "object", minProperties: 3, maxProperties: 1 },
    { type: "object", minProperties: 50 },
    { type: "array", items: false },
    { type: "array", items: false, minItems: 1 },
    object(properties(60, () => ({ type: "string", maxLength: 9_000 }))),
    object(properties(60, () => ({ type: "array", items: { type: "string", maxLength: 900 }, maxItems: 90 }))),
    nested(5, (inner) => ({ type: "array", items: inner, maxItems: 100 })),
  ];
}

function names(): unknown[] {
  const odd = [
    "",
    " ",
    '"',
    "\\",
    "\n",
    "\u0000",
    "\u001f",
    "\u007f",
    "\u2028",
    "\ud800",
    "日本語",
    "🙂",
    "a]b",
    "a-b",
    "^a",
    "[a",
    "a::=b",
    "root",
    "constructor",
    "toString",
    "hasOwnProperty",
    "$ref",
    "type",
    "a".repeat(5_000),
  ];
  return [
    ...odd.map((name) => object({ [name]: { type: "integer" } }, { required: [name] })),
    object(Object.fromEntries(odd.map((name) => [name, { type: "integer" }])), {
      additionalProperties: { type: "string" },
    }),
    { enum: odd },
    { required: odd, additionalProperties: { type: "null" } },
    '{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}',
    '{"type":"object","properties":{"__proto__":{"type":"string"},"a":{"$ref":"#/properties/__proto__"}}}',
    '{"__proto__":{"type":"string"},"type":"object"}',
    '{"$ref":"#/$defs/__proto__","$defs":{"__proto__":{"type":"string"}}}',
    '{"enum":[{"__proto__":1}]}',
  ];
}

function unenforceable(): unknown[] {
  return [
    { type: "string", pattern: "^(a+)+$" },
    { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}$" },
    { type: "string", pattern: "((((((((((a*)*)*)*)*)*)*)*)*)*" },
    { type: "string", pattern: "(" },
    { type: "string", pattern: "a".repeat(5_000) },
    { type: "object", patternProperties: { "^(x+)*$": true } },
    { type: "object", patternProperties: { "(": true }, additionalProperties: false },
    { type: "object", propertyNames: { pattern: "^a" } },
    { type: "object", propertyNames: { type: "string" }, additionalProperties: { type: "number" } },
    { not: {} },
    { not: { type: "object" } },
    { type: "object", not: { required: ["a"] } },
    conditional({ type: "object" }, { required: ["a"] }),
    { type: "array", uniqueItems: true, items: { enum: [1, 2] }, minItems: 3 },
    { type: "array", contains: { const: 1 }, minContains: 5 },
    { type: "number", multipleOf: 0.01 },
    { type: "integer", multipleOf: 1 },
    { type: "object", dependentSchemas: { a: { required: ["b"] } } },
    { type: "object", dependentRequired: { a: ["b"] } },
    { type: "object", dependencies: { a: ["b"] } },
    { type: "object", unevaluatedProperties: false },
    { type: "string", format: "regex" },
    { type: "string", format: "date", minLength: 20 },
    { type: "string", format: "uuid", pattern: "x" },
    { type: "integer", format: "int64" },
    { $id: "https://example.com/a", $schema: "http://json-schema.org/draft-07/schema#", type: "object" },
    object({ a: { $id: "b", $ref: "#/$defs/c", $defs: { c: { type: "string" } } } }),
  ];
}

function malformed(): unknown[] {
  return [
    true,
    false,
    {},
    { type: "text" },
    { type: [] },
    { type: 5 },
    { enum: [] },
    { enum: "a" },
    { const: null },
    { properties: [] },
    { properties: { a: 5 } },
    { required: "a" },
    { required: [5] },
    { items: 5 },
    { items: [{ type: "string" }, false], additionalItems: { type: "null" } },
    { anyOf: [] },
    { anyOf: {} },
    { oneOf: [] },
    { allOf: [] },
    { allOf: [false] },
    { minLength: -1 },
    { minLength: 1.5 },
    { maxLength: "5" },
    { minimum: "5" },
    { minimum: 0, exclusiveMinimum: true },
    { additionalProperties: 5 },
    { $defs: 5, $ref: "#/$defs/a" },
    { type: "string", nullable: true },
    { id: "urn:a", definitions: { a: { id: "#a" } }, $ref: "#/definitions/a" },
    { discriminator: { propertyName: "a" }, oneOf: [{ type: "null" }] },
    { allOf: [{ type: "string" }, { type: "integer" }] },
    { allOf: [{ const: 1 }, { const: 2 }] },
    object({ a: false }, { required: ["a"] }),
    object({ a: false }),
  ];
}

function lists(): unknown[] {
  return [
    { enum: times(1_900, (index) => index) },
    { enum: times(1_900, (index) => `value ${index}`) },
    { enum: times(50, (index) => "x".repeat(1_000 + index)) },
    { const: "y".repeat(60_000) },
    { enum: [1, 12, 123, 1.5, -1, "1", null, true, [], {}, [1], { a: 1 }, 1e21, 1e-7, -0] },
    { enum: times(300, (index) => ({ a: index, b: [index] })) },
    { enum: [{ a: 1 }, [1]], type: "object", required: ["a"], minItems: 1 },
    { type: "string", enum: ["a", 5, null] },
    { type: "integer", enum: ["a"] },
  ];
}

/** Combines two schemas of the collection in one of several ways. */
function combined(schemas: readonly unknown[], index: number): unknown {
  const left = schemas[(index * 7) % schemas.length];
  const right = schemas[(index * 13 + 5) % schemas.length];
  switch (index % 4) {
    case 0:
      return { anyOf: [object({ left }), object({ right })] };
    case 1:
      return object({ left, right }, { required: ["left"] });
    case 2:
      return { allOf: [{ type: "object" }, object({ left: { type: "array", items: left } })] };
    default:
      return { type: "array", prefixItems: [left, right] };
  }
}
