import { EngineError, type GenerateRequest } from "../../../domain/engine/engine.js";
import type { ChildInput, TemplateTool } from "../protocol/protocol.js";
import { GrammarBuilder } from "../structure/grammar-builder.js";
import { LruCache } from "../structure/lru-cache.js";
import { responseForm, responseGrammar } from "../structure/response-grammar.js";
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
type Format = NonNullable<GenerateRequest["format"]>;

/** How one answer is asked for, held to its form and read. */
export interface OutputPlan {
  /** Those that the template shows. */
  readonly templateTools: readonly TemplateTool[];
  /** What is said of the tools to a model whose template knows none. */
  readonly extraSystem: string | null;
  /** GBNF; null: the answer is free. */
  readonly grammar: string | null;
  /** One for each choice. */
  newReader(): OutputReader;
}

/**
 * `template` null, or an input that is no chat: nothing but the format counts. Tools in the choice `auto` are left out
 * where the template has no form for calls. Throws EngineError `bad_schema` with param `tools[i].function.parameters` or
 * `response_format`, and `bad_input` for a choice of a tool that was not given.
 */
export function planOutput(
  input: ChildInput,
  format: GenerateRequest["format"],
  template: ChatTemplate | null,
  nextCallId: () => string,
): OutputPlan {
  if (input.type !== "chat" || template === null) return { ...noTools, ...answer(format, () => new PlainReader()) };
  const asked = { input, tools: offered(input), template, nextCallId };
  const { mode } = input.toolChoice;
  if (asked.tools.length > 0 && (mode === "required" || mode === "named")) return forcedPlan(asked);
  if (asked.tools.length > 0 && template.toolFormat !== null) return autoPlan(asked, format);
  const newText = thinking(() => new PlainReader(), input, template);
  return { ...noTools, ...answer(format, newText) };
}

/** Of calls, alone or beside a format. */
const grammars = new LruCache<string>();

const noTools = { templateTools: [], extraSystem: null } as const;

type NewReader = OutputPlan["newReader"];
type Held = Pick<OutputPlan, "grammar" | "newReader">;

interface Asked {
  readonly input: ChatInput;
  readonly tools: readonly PlacedTool[];
  readonly template: ChatTemplate;
  readonly nextCallId: () => string;
}

/** Calls and nothing else. */
function forcedPlan(asked: Asked): OutputPlan {
  const tools = asked.tools.map(({ tool }) => tool);
  const grammar = grammars.get(["calls", asked.tools, isParallel(asked)], () => {
    const builder = new GrammarBuilder();
    return builder.build(addCalls(builder, asked.tools, isParallel(asked)));
  });
  const held = { grammar, newReader: hermes(asked, { forced: true }) };
  return asked.template.toolFormat === null
    ? { templateTools: [], extraSystem: toolInstructions(tools, isParallel(asked)), ...held }
    : { templateTools: tools, extraSystem: null, ...held };
}

/** Calls or text, as the model likes. */
function autoPlan(asked: Asked, format: GenerateRequest["format"]): OutputPlan {
  const shown = { templateTools: asked.tools.map(({ tool }) => tool), extraSystem: null };
  if (format !== undefined) return { ...shown, ...callsOrAnswer(asked, format) };
  refuseUnenforceable(asked.tools);
  const newReader = thinking(hermes(asked, { forced: false }), asked.input, asked.template);
  return { ...shown, grammar: null, newReader };
}

function hermes(asked: Asked, { forced }: { readonly forced: boolean }): NewReader {
  const { nextCallId } = asked;
  const tools = new CallableTools(asked.tools.map(({ tool }) => tool));
  return () => new HermesReader({ tools, nextCallId, parallel: isParallel(asked), forced });
}

/** A function that is named is called once (TOOL-5). */
function isParallel({ input }: Asked): boolean {
  return input.parallelToolCalls && input.toolChoice.mode !== "named";
}

/** The tools that may be called, with their places in the request. */
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

/** An answer without calls; `newFree` reads it where it has no format. */
function answer(format: GenerateRequest["format"], newFree: NewReader): Held {
  if (format === undefined) return { grammar: null, newReader: newFree };
  const { gbnf, check } = refusing("response_format", () => responseGrammar(format));
  return { grammar: gbnf, newReader: () => new StructuredReader(check) };
}

/** Calls, or a text that follows the format (RF-6). */
function callsOrAnswer(asked: Asked, format: Format): Held {
  const newCalls = hermes(asked, { forced: true });
  const { addTo, check } = refusing("response_format", () => responseForm(format));
  const grammar = grammars.get(["either", asked.tools, isParallel(asked), format], () => {
    const builder = new GrammarBuilder();
    const calls = addCalls(builder, asked.tools, isParallel(asked));
    const text = refusing("response_format", () => addTo(builder));
    return builder.build(builder.rule("answer", `${calls} | ${text}`));
  });
  return {
    grammar,
    newReader: () => new EitherReader(hermesOpening.charAt(0), newCalls(), new StructuredReader(check)),
  };
}

/**
 * A free answer has no grammar, so that calls are checked when they are made; what a grammar could not hold is refused
 * all the same (TOOL-14), for a schema is not good in one choice and bad in the other.
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
