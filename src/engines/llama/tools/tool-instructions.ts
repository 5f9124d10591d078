import type { TemplateTool } from "../protocol.js";
import { hermesClosing, hermesOpening } from "./hermes-format.js";

/**
 * How a model whose template knows no tools is told of them. Only for answers that a grammar holds to the form: models
 * that never saw it would not keep to it.
 */
export function toolInstructions(tools: readonly TemplateTool[], parallel: boolean): string {
  return [
    "Answer with function calls only. These functions exist, one JSON object per line:",
    ...tools.map(described),
    parallel ? "Write each call in this form:" : "Write exactly one call, in this form:",
    `${hermesOpening}\n{"name": "the function's name", "arguments": {the values for its parameters}}\n${hermesClosing}`,
    "Take the values from the conversation.",
  ].join("\n");
}

function described({ function: { name, description, parameters } }: TemplateTool): string {
  return JSON.stringify({ name, ...(description === undefined ? {} : { description }), parameters });
}
