import { type ChatCompletionParams, type Tool, ToolChoice_Mode } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { ErrorCode } from "../../contract/errors.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { checkCount, checkFunctionName, checkNotEmpty, quote, refuse } from "../call/service-error.js";

/** Validates tools and tool_choice. */
export function validateTools({ tools, toolChoice }: ChatCompletionParams, limits: ServiceLimits): void {
  checkCount(tools.length, "tools", limits.toolsMax);
  let schemaChars = 0;
  for (const [i, tool] of tools.entries()) {
    schemaChars += tool.function?.parametersJson?.length ?? 0;
    validateTool(tool, `tools[${i}].function`, schemaChars, limits);
  }
  if (toolChoice !== undefined) validateChoice(toolChoice.choice, tools);
}

/** `schemaChars` counts this tool and all before it. */
function validateTool(tool: Tool, at: string, schemaChars: number, limits: ServiceLimits): void {
  if (tool.function === undefined) {
    refuse("missing_required_parameter", at, `'${at}' is required, but is missing: functions are the only tools.`);
  }
  checkFunctionName(tool.function.name, `${at}.name`);
  const { parametersJson } = tool.function;
  if (parametersJson === undefined) return;
  const place = { code: "invalid_function_parameters", param: `${at}.parameters` } as const;
  if (schemaChars > limits.schemaCharsMax) {
    refuse(
      place.code,
      place.param,
      `The JSON Schemas of all 'tools' may have ${limits.schemaCharsMax} characters together, but up to '${place.param}' there are ${schemaChars}.`,
    );
  }
  checkSchema(parametersJson, place);
}

type Choice = NonNullable<ChatCompletionParams["toolChoice"]>["choice"];

function validateChoice(choice: Choice, tools: readonly Tool[]): void {
  switch (choice.case) {
    case "mode":
      validateMode(choice.value, ["none", "auto", "required"]);
      if (choice.value === ToolChoice_Mode.REQUIRED && tools.length === 0) {
        refuse(
          "invalid_value",
          "tool_choice",
          "'tool_choice' may be 'required' only with 'tools', but there are none.",
        );
      }
      return;
    case "function":
      validateOffered(choice.value, tools);
      return;
    case "allowed":
      validateMode(choice.value.mode, ["auto", "required"]);
      checkNotEmpty(choice.value.names.length, "tool_choice.allowed_tools.tools");
      for (const name of choice.value.names) validateOffered(name, tools);
      return;
    default:
      refuse(
        "invalid_value",
        "tool_choice",
        "'tool_choice' must be a mode, a function or allowed tools, but none is set.",
      );
  }
}

const modeNames = new Map<number, string>([
  [ToolChoice_Mode.NONE, "none"],
  [ToolChoice_Mode.AUTO, "auto"],
  [ToolChoice_Mode.REQUIRED, "required"],
]);

function validateMode(mode: ToolChoice_Mode, allowed: readonly string[]): void {
  const given = modeNames.get(mode);
  if (given !== undefined && allowed.includes(given)) return;
  const list = allowed.map((name) => `'${name}'`).join(", ");
  const shown = given === undefined ? `the number ${mode}` : `'${given}'`;
  refuse("invalid_value", "tool_choice", `The mode of 'tool_choice' must be one of ${list}, but is ${shown}.`);
}

function validateOffered(name: string, tools: readonly Tool[]): void {
  if (tools.some((tool) => tool.function?.name === name)) return;
  refuse(
    "invalid_value",
    "tool_choice",
    `'tool_choice' must name one of the functions in 'tools', but names ${quote(name)}.`,
  );
}

/** Schemas are compiled into grammars, so their size is bounded first (SEC-10). */
const schemaNodesMax = 2_000;
const schemaDepthMax = 32;

/** Position of a schema and the error code for an invalid one. */
export interface SchemaPlace {
  readonly code: Extract<ErrorCode, "invalid_function_parameters" | "invalid_json_schema">;
  readonly param: string;
}

/**
 * Throws unless the JSON Schema is an object with at most 2,000 values and 32 levels that refers to no other document.
 * The caller bounds the length of the text.
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
    // The parser's message quotes the input, so it is not passed on.
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
