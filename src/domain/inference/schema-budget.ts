import type { ErrorCode } from "../../contract/errors.js";
import { quote, refuse } from "../call/field-checks.js";

/** A schema is compiled into a grammar, so its size is bounded before an engine sees it (SEC-10). */
const schemaNodesMax = 2_000;
const schemaDepthMax = 32;

/** Where a schema stands, and how a bad one is reported. */
export interface SchemaPlace {
  readonly code: Extract<ErrorCode, "invalid_function_parameters" | "invalid_json_schema">;
  readonly param: string;
}

/**
 * Refuses a JSON Schema that is not a JSON object, has more than 2,000 values, nests deeper than 32 or refers to
 * another document. Bounding the text's length is the caller's.
 */
export function checkSchema(text: string, place: SchemaPlace): void {
  const schema = parse(text, place);
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    refuse(place.code, place.param, `The JSON Schema of '${place.param}' must be an object, but is ${kindOf(schema)}.`);
  }
  let nodes = 0;
  const visit = (value: unknown, depth: number): void => {
    nodes++;
    if (nodes > schemaNodesMax) tooLarge(place, `at most ${schemaNodesMax} values`);
    if (typeof value !== "object" || value === null) return;
    if (depth > schemaDepthMax) tooLarge(place, `at most ${schemaDepthMax} levels`);
    for (const [key, child] of Object.entries(value)) {
      checkReference(key, child, place);
      visit(child, depth + 1);
    }
  };
  visit(schema, 1);
}

function parse(text: string, place: SchemaPlace): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own text quotes the input, so it is not passed on.
    return refuse(place.code, place.param, `The JSON Schema of '${place.param}' must be JSON, but cannot be parsed.`);
  }
}

function checkReference(key: string, value: unknown, place: SchemaPlace): void {
  if (key !== "$ref" && key !== "$dynamicRef") return;
  if (typeof value !== "string" || value.startsWith("#")) return;
  refuse(
    place.code,
    place.param,
    `A reference in the JSON Schema of '${place.param}' must begin with '#', but is ${quote(value)}.`,
  );
}

function tooLarge(place: SchemaPlace, expected: string): never {
  return refuse(place.code, place.param, `The JSON Schema of '${place.param}' may have ${expected}, but has more.`);
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}
