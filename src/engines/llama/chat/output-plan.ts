import { EngineError } from "../../../domain/engine/engine.js";
import type { TextFormat } from "../../../domain/engine/text-format.js";
import type { ChildInput, TemplateTool } from "../protocol/protocol.js";
import { GrammarBuilder } from "../structure/grammar-builder.js";
import { LruCache } from "../structure/lru-cache.js";
import { isJsonFormat, plainGrammar, responseForm, responseGrammar } from "../structure/response-grammar.js";
import type { ChatTemplate } from "./chat-template.js";
import { HermesReader } from "./hermes-reader.js";
import { EitherReader, type OutputReader, PlainReader, StructuredReader, ThinkingReader } from "./output-reader.js";
import {
  addArguments,
  addCalls,
  CallableTools,
  hermesOpening,
  type PlacedTool,
  refusing,
  toolInstructions,
} from "./tool-calls.js";

type ChatInput = Extract<ChildInput, { type: "chat" }>;

/** How one answer is requested from the model, constrained and read. */
export interface OutputPlan {
  /** Tools for the template. */
  readonly templateTools: readonly TemplateTool[];
  /** Instructions about the tools for a model whose template does not support them. */
  readonly extraSystem: string | null;
  /** GBNF; null: the answer is unconstrained. */
  readonly grammar: string | null;
  /** Creates the reader of one choice. */
  newReader(): OutputReader;
}

/**
 * Plans an answer. Without a template or a chat only the format matters. With the choice `auto`, tools are ignored if the
 * template has no format for calls. Throws EngineError `bad_schema` with param `tools[i].function.parameters` or the field of
 * the format, and `bad_input` for a format that cannot be enforced and for the choice of a tool that is not offered.
 */
export function planOutput(
  input: ChildInput,
  format: TextFormat | undefined,
  template: ChatTemplate | null,
  nextCallId: () => string,
): OutputPlan {
  if (input.type !== "chat" || template === null) return { ...noTools, ...answer(format, () => new PlainReader()) };
  const request = { input, tools: offered(input), template, nextCallId };
  const { mode } = input.toolChoice;
  if (request.tools.length > 0 && (mode === "required" || mode === "named")) return forcedPlan(request);
  if (request.tools.length > 0 && template.toolFormat !== null) return autoPlan(request, format);
  const newText = thinking(() => new PlainReader(), input, template);
  return { ...noTools, ...answer(format, newText) };
}

/** Grammars of calls, alone or as an alternative to a format. */
const grammars = new LruCache<string>();

const noTools = { templateTools: [], extraSystem: null } as const;

type NewReader = OutputPlan["newReader"];
type Constrained = Pick<OutputPlan, "grammar" | "newReader">;

interface ToolRequest {
  readonly input: ChatInput;
  readonly tools: readonly PlacedTool[];
  readonly template: ChatTemplate;
  readonly nextCallId: () => string;
}

/** The plan of an answer that must consist of calls. */
function forcedPlan(request: ToolRequest): OutputPlan {
  const tools = request.tools.map(({ tool }) => tool);
  const grammar = grammars.get(["calls", request.tools, isParallel(request)], () => {
    const builder = new GrammarBuilder();
    return builder.build(addCalls(builder, request.tools, isParallel(request)));
  });
  const constrained = { grammar, newReader: hermes(request, { forced: true }) };
  return request.template.toolFormat === null
    ? { templateTools: [], extraSystem: toolInstructions(tools, isParallel(request)), ...constrained }
    : { templateTools: tools, extraSystem: null, ...constrained };
}

/** The plan of an answer in which the model chooses between calls and text. */
function autoPlan(request: ToolRequest, format: TextFormat | undefined): OutputPlan {
  const shown = { templateTools: request.tools.map(({ tool }) => tool), extraSystem: null };
  if (format !== undefined) return { ...shown, ...callsOrAnswer(request, format) };
  refuseUnenforceable(request.tools);
  const newReader = thinking(hermes(request, { forced: false }), request.input, request.template);
  return { ...shown, grammar: null, newReader };
}

function hermes(request: ToolRequest, { forced }: { readonly forced: boolean }): NewReader {
  const { nextCallId } = request;
  const tools = new CallableTools(request.tools.map(({ tool }) => tool));
  return () => new HermesReader({ tools, nextCallId, parallel: isParallel(request), forced });
}

/** A named function is called once (TOOL-5). */
function isParallel({ input }: ToolRequest): boolean {
  return input.parallelToolCalls && input.toolChoice.mode !== "named";
}

/** The tools that may be called, with their indexes in the request. */
function offered({ tools, toolChoice }: ChatInput): readonly PlacedTool[] {
  const placed = tools.map((tool, at) => ({ at, tool }));
  if (toolChoice.mode === "none") return [];
  if (toolChoice.mode !== "named") return placed;
  const named = placed.filter(({ tool }) => tool.function.name === toolChoice.name);
  if (named.length > 0) return named;
  throw new EngineError("bad_input", `'tool_choice' names '${toolChoice.name}', which is none of the tools.`, {
    param: "tool_choice",
  });
}

/** An answer without calls; `newFree` reads it if it has no format. */
function answer(format: TextFormat | undefined, newFree: NewReader): Constrained {
  if (format === undefined) return { grammar: null, newReader: newFree };
  const param = fieldOf(format);
  if (!isJsonFormat(format)) {
    return { grammar: refusing(param, () => plainGrammar(format)), newReader: () => new PlainReader() };
  }
  const { gbnf, check } = refusing(param, () => responseGrammar(format));
  return { grammar: gbnf, newReader: () => new StructuredReader(check) };
}

/** The field of the request that required the format. */
export function fieldOf({ param = "response_format" }: TextFormat): string {
  return param;
}

/** The form of an answer that consists of calls or of a text that follows the format (RF-6). */
function callsOrAnswer(request: ToolRequest, format: TextFormat): Constrained {
  const param = fieldOf(format);
  if (!isJsonFormat(format)) {
    throw new EngineError("unsupported", `'${param}' must not be given together with 'tools' that may be called.`, {
      param,
    });
  }
  const newCalls = hermes(request, { forced: true });
  const { addTo, check } = refusing(param, () => responseForm(format));
  const grammar = grammars.get(["either", request.tools, isParallel(request), format], () => {
    const builder = new GrammarBuilder();
    const calls = addCalls(builder, request.tools, isParallel(request));
    const text = refusing(param, () => addTo(builder));
    return builder.build(builder.rule("answer", `${calls} | ${text}`));
  });
  return {
    grammar,
    newReader: () => new EitherReader(hermesOpening.charAt(0), newCalls(), new StructuredReader(check)),
  };
}

/**
 * An unconstrained answer has no grammar, and its calls are checked once they are complete. Strict schemas that a grammar
 * cannot enforce are refused all the same (TOOL-14), so that a schema is valid for every tool choice or for none.
 */
function refuseUnenforceable(tools: readonly PlacedTool[]): void {
  const strict = tools.filter(({ tool }) => tool.function.strict);
  for (const placed of strict) {
    grammars.get(["arguments", placed.tool.function.parameters], () => {
      const builder = new GrammarBuilder();
      return builder.build(addArguments(builder, placed));
    });
  }
}

function thinking(newAnswer: NewReader, input: ChatInput, template: ChatTemplate): NewReader {
  if (!template.thinks) return newAnswer;
  const inThoughts = template.opensThinking(input.templateVariables);
  return () => new ThinkingReader(newAnswer(), inThoughts);
}
