import { EngineError } from "../../../domain/engine/engine.js";
import type { TemplateTool } from "../protocol.js";
import { type GrammarBuilder, gbnfLiteral } from "../structure/grammar-builder.js";
import { SchemaUnsupported } from "../structure/schema-unsupported.js";
import { argumentsSchema } from "./arguments-schema.js";
import { callsMax, hermesClosing, hermesOpening } from "./hermes-format.js";

/** A tool with its place in the request, for errors that name it. */
export interface PlacedTool {
  readonly at: number;
  readonly tool: TemplateTool;
}

/**
 * Adds the rules for calls of these tools, in the Hermes form, and returns the name of the rule for an answer that is
 * nothing but calls: one, or with `parallel` 1 to 16. Throws EngineError `bad_schema`.
 */
export function addCalls(builder: GrammarBuilder, tools: readonly PlacedTool[], parallel: boolean): string {
  const bodies = tools.map((placed) => {
    const args = addArguments(builder, placed);
    return `${gbnfLiteral(`${JSON.stringify(placed.tool.function.name)}, "arguments": `)} ${args}`;
  });
  const tool = builder.rule("tool", bodies.join(" | "));
  const opening = gbnfLiteral(`${hermesOpening}\n{"name": `);
  const call = builder.rule("call", `${opening} ${tool} ${gbnfLiteral(`}\n${hermesClosing}`)}`);
  return parallel ? builder.rule("calls", `${call} (${gbnfLiteral("\n")} ${call}){0,${callsMax - 1}}`) : call;
}

/** Returns the name of the rule for the arguments of the tool. */
export function addArguments(builder: GrammarBuilder, { at, tool }: PlacedTool): string {
  const mode = tool.function.strict ? "strict" : "lenient";
  return refusing(`tools[${at}].function.parameters`, () => builder.addSchema(argumentsSchema(tool), mode));
}

/** Runs what may throw SchemaUnsupported and names the field that is to blame. */
export function refusing<T>(param: string, code: () => T): T {
  try {
    return code();
  } catch (thrown) {
    if (!(thrown instanceof SchemaUnsupported)) throw thrown;
    throw new EngineError("bad_schema", thrown.message, { param, cause: thrown });
  }
}
