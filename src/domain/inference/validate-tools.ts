import { type ChatCompletionParams, type Tool, ToolChoice_Mode } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { checkCount, checkFunctionName, checkNotEmpty, quote, refuse } from "../call/field-checks.js";
import { checkSchema } from "./schema-budget.js";

/** The rules of tools and of the choice among them. */
export function validateTools({ tools, toolChoice }: ChatCompletionParams, limits: ServiceLimits): void {
  checkCount(tools.length, "tools", limits.toolsMax);
  let schemaChars = 0;
  for (const [i, tool] of tools.entries()) {
    schemaChars += tool.function?.parametersJson?.length ?? 0;
    validateTool(tool, `tools[${i}].function`, schemaChars, limits);
  }
  if (toolChoice !== undefined) validateChoice(toolChoice.choice, tools);
}

/** `schemaChars`: of this tool and all before it. */
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
