import type { ReadContext } from "./read-context.js";
import type { SchemaObject } from "./schema-document.js";
import type { Shape } from "./shape.js";
import { formatNames, type StringFormat, stringFormat } from "./string-format.js";
import { stringCost, stringLengthMax } from "./string-grammar.js";

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
