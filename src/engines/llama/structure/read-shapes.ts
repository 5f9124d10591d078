import type { FacetSet } from "./alternatives.js";
import { explicitTypes, isJsonType, type JsonType, keywordTypes, listedValues } from "./keywords.js";
import { integerRange, type NumberRange, numberRange } from "./number-grammar.js";
import { readArray, readObject } from "./read-compounds.js";
import type { Schema, SchemaDocument, SchemaObject } from "./schema-document.js";
import type { Place, ReadContext, Shape } from "./shape.js";
import { formatNames, type StringFormat, stringCost, stringFormat, stringLengthMax } from "./string-grammar.js";

/** Elements that bounded repetitions of one schema may add to a grammar. */
const repetitionsMax = 20_000;

/** StepBatcher sets of schemas into the shapes that they allow. Throws SchemaUnsupported. */
export class ShapeReader {
  readonly #context: ReadContext;
  readonly #known = new Map<string, readonly Shape[]>();
  #repetitions = 0;

  constructor(document: SchemaDocument, placeOf: (schemas: readonly Schema[]) => Place) {
    const reserve = (elements: number) => {
      if (this.#repetitions + elements > repetitionsMax) return false;
      this.#repetitions += elements;
      return true;
    };
    this.#context = { document, placeOf, reserve };
  }

  /** Elements that were set aside so far. */
  get repetitions(): number {
    return this.#repetitions;
  }

  shapesOf(set: FacetSet): readonly Shape[] {
    const known = this.#known.get(set.key);
    if (known !== undefined) return known;
    const shapes = this.#read(set.schemas);
    this.#known.set(set.key, shapes);
    return shapes;
  }

  #read(schemas: readonly SchemaObject[]): readonly Shape[] {
    const types = typesOf(this.#context.document, schemas);
    const values = listedValues(this.#context.document, schemas);
    if (values !== null) return [{ kind: "values", values }];
    if (types === null) return [{ kind: "any" }];
    return types.flatMap((type) => this.#ofType(type, schemas));
  }

  #ofType(type: JsonType, schemas: readonly SchemaObject[]): readonly Shape[] {
    const { document } = this.#context;
    switch (type) {
      case "null":
      case "boolean":
        return [{ kind: type }];
      case "integer":
        return numeric(type, integerRange(document, schemas));
      case "number":
        return numeric(type, numberRange(document, schemas));
      case "string":
        return readString(this.#context, schemas);
      case "array":
        return readArray(this.#context, schemas);
      case "object":
        return readObject(this.#context, schemas);
    }
  }
}

function numeric(kind: "integer" | "number", range: NumberRange | null): readonly Shape[] {
  return range !== null && range.low > range.high ? [] : [{ kind, range }];
}

/**
 * The types that all schemas allow. Without any `type`, keywords that speak of one type mean values of that type, which
 * is narrower than the standard's reading and what people who write so expect; null: nothing says anything.
 */
function typesOf(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly JsonType[] | null {
  const named = explicitTypes(document, schemas);
  if (named !== null) return named;
  const meant = new Set<JsonType>();
  for (const schema of schemas) {
    for (const [keyword, type] of keywordTypes) if (document.read(schema, keyword) !== undefined) meant.add(type);
  }
  return meant.size === 0 ? null : [...meant].filter(isJsonType);
}

/** The shape of strings under all of the schemas; none when their bounds exclude each other. */
export function readString(context: ReadContext, schemas: readonly SchemaObject[]): readonly Shape[] {
  const format = readFormat(context, schemas);
  for (const schema of schemas) giveUpHugeLengths(context, schema);
  let minLength = 0;
  let maxLength: number | null = null;
  for (const schema of schemas) {
    minLength = Math.max(minLength, context.document.readCount(schema, "minLength") ?? 0);
    const most = context.document.readCount(schema, "maxLength");
    if (most !== null) maxLength = Math.min(most, maxLength ?? most);
  }
  if (maxLength !== null && minLength > maxLength) return [];
  if (format !== null) {
    const fits = minLength <= format.shortest && (maxLength === null || maxLength >= format.longest);
    if (!fits) giveUpLengths(context, schemas, "cannot be combined with this format");
    return [{ kind: "string", minLength: 0, maxLength: null, format }];
  }
  if (!context.reserve(stringCost(minLength, maxLength))) {
    giveUpLengths(context, schemas, "makes too large a grammar together with the other bounds of this schema");
    return [{ kind: "string", minLength: 0, maxLength: null, format: null }];
  }
  return [{ kind: "string", minLength, maxLength, format: null }];
}

function giveUpHugeLengths(context: ReadContext, schema: SchemaObject): void {
  for (const keyword of ["minLength", "maxLength"]) {
    if ((context.document.readCount(schema, keyword) ?? 0) <= stringLengthMax) continue;
    context.document.giveUp(schema, keyword, `may be at most ${stringLengthMax}`);
  }
}

function giveUpLengths(context: ReadContext, schemas: readonly SchemaObject[], why: string): void {
  for (const schema of schemas) {
    for (const keyword of ["minLength", "maxLength"]) {
      if (context.document.read(schema, keyword) !== undefined) context.document.giveUp(schema, keyword, why);
    }
  }
}

/** The format to enforce. Of two different ones the first is kept. */
function readFormat({ document }: ReadContext, schemas: readonly SchemaObject[]): StringFormat | null {
  let kept: StringFormat | null = null;
  for (const schema of schemas) {
    const name = document.read(schema, "format");
    if (name === undefined) continue;
    if (typeof name !== "string") return document.refuse(schema, "'format' must be a text.");
    const format = stringFormat(name);
    if (format === null) {
      document.giveUp(schema, "format", `can only be one of ${formatNames.join(", ")}`);
    } else if (kept !== null && kept !== format) {
      document.giveUp(schema, "format", "asks for two formats at once");
    } else kept = format;
  }
  return kept;
}
