import { EngineError } from "../../../domain/engine/engine.js";
import type { TemplateTool } from "../protocol/protocol.js";
import type { GrammarBuilder } from "../structure/grammar-builder.js";
import { PatternUnsupported } from "../structure/pattern.js";
import { compileCheck } from "../structure/schema-check.js";
import { SchemaUnsupported } from "../structure/schema-document.js";
import { gbnfLiteral } from "../structure/string-grammar.js";

/** Markers of a call in the format of the Hermes and Qwen families: JSON on a line of its own between them. */
export const hermesOpening = "<tool_call>";
export const hermesClosing = "</tool_call>";

/** Maximum number of calls of one answer. */
export const callsMax = 16;

/** A tool with its index in the request, which errors state. */
export interface PlacedTool {
  readonly at: number;
  readonly tool: TemplateTool;
}

/**
 * Adds the rules for calls of these tools in the Hermes format and returns the name of the rule for an answer of calls
 * only: one, or with `parallel` 1 to 16. Throws EngineError `bad_schema`.
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

/** Adds the rules for the arguments of the tool and returns the name of the first. Throws EngineError `bad_schema`. */
export function addArguments(builder: GrammarBuilder, { at, tool }: PlacedTool): string {
  const mode = tool.function.strict ? "strict" : "lenient";
  return refusing(`tools[${at}].function.parameters`, () => builder.addSchema(argumentsSchema(tool), mode));
}

/** Converts SchemaUnsupported to EngineError `bad_schema`, and PatternUnsupported to `bad_input`, with the name of the field. */
export function refusing<T>(param: string, code: () => T): T {
  try {
    return code();
  } catch (thrown) {
    if (thrown instanceof SchemaUnsupported) {
      throw new EngineError("bad_schema", thrown.message, { param, cause: thrown });
    }
    if (!(thrown instanceof PatternUnsupported)) throw thrown;
    const message = `The constraint in '${param}' cannot be enforced: ${thrown.message}.`;
    throw new EngineError("bad_input", message, { param, cause: thrown });
  }
}

/**
 * Instructions for a model whose template does not support tools. Used only for answers with a grammar, because a model
 * that was not trained with the format would not follow it.
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

/**
 * The schema of a tool's arguments. They are always an object, even if the caller's schema states the type only in the
 * schemas that it combines, or nowhere. A schema of another type throws SchemaUnsupported if it is strict; otherwise the
 * schema of any object is returned.
 */
export function argumentsSchema({ function: { parameters, strict } }: TemplateTool): object {
  const type: unknown = Reflect.get(parameters, "type");
  if (type === "object") return parameters;
  if (type === undefined) return { ...parameters, type: "object" };
  if (strict) throw new SchemaUnsupported("", "arguments are an object; set 'type' to \"object\".");
  return { type: "object" };
}

type Check = (value: unknown) => string | null;

/** The tools that an answer may call. */
export class CallableTools {
  readonly #tools: ReadonlyMap<string, TemplateTool>;
  /** Compiled at the first call of a tool; most are never called. */
  readonly #checks = new Map<string, Check>();

  constructor(tools: readonly TemplateTool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.function.name, tool]));
  }

  has(name: string): boolean {
    return this.#tools.has(name);
  }

  /** The fault of the arguments of a strict tool's call; null: none, or the tool is not strict. */
  check(name: string, args: unknown): string | null {
    const tool = this.#tools.get(name);
    if (tool === undefined || !tool.function.strict) return null;
    const check = this.#checks.get(name) ?? compileCheck(argumentsSchema(tool), "strict");
    this.#checks.set(name, check);
    const wrong = check(args);
    return wrong === null ? null : `the arguments of the call of '${name}' break its schema: ${wrong}`;
  }
}
