import type { BoundedCapabilities } from "../../domain/engine/engine.js";

/** Settings under `scripted:` of a deployment, spelled as in the configuration file, which checks them. Times are milliseconds. */
export interface ScriptedOptions {
  /** Text of the answers. Default: the last user message, or the prompt. */
  readonly text?: string | undefined;
  /** Repeats or cuts the text to this many tokens. At least 0. */
  readonly tokens?: number | undefined;
  /** Wait before the first token, and before vectors or scores. Default 0. */
  readonly first_token_delay_ms?: number | undefined;
  /** Wait before every later token. Default 0. */
  readonly token_delay_ms?: number | undefined;
  /**
   * Tool calls of the answers if these tools are offered and the choice is `auto`. After a message with a tool's result the
   * answer is the text, so that an agent's loop ends. A required or named call takes its arguments from here; default: `{}`.
   */
  readonly tool_calls?: readonly ScriptedToolCall[] | undefined;
  /** Short form of `tool_calls` for a single call. */
  readonly tool_call?: ScriptedToolCall | undefined;
  /**
   * Replaces `tool_calls`: the calls of each answer of an agent's loop. The number of answers with tool calls that the request
   * contains selects the round; after the last round the answer is the text.
   */
  readonly tool_rounds?: readonly (readonly ScriptedToolCall[])[] | undefined;
  /** Finish reason of the texts; default: `stop`. */
  readonly finish_reason?: "content_filter" | undefined;
  readonly fail?: ScriptedFailure | undefined;
  /** Hangs after this many tokens of all choices together, until the call is aborted. 0: before the first. */
  readonly hang_after_tokens?: number | undefined;
  /** Length of the vectors. Makes the model an embedding model, which generates no text. At least 1. */
  readonly dimensions?: number | undefined;
  /** Makes the model a reranking model, which generates no text. Default false. */
  readonly rerank?: boolean | undefined;
  /** Maximum tokens of prompt and answer together. Default: the deployment's value. */
  readonly context_length?: number | undefined;
  /** Whether prompts and inputs may be token ids; any id counts as one token. Default false. */
  readonly token_input?: boolean | undefined;
}

export interface ScriptedToolCall {
  readonly name: string;
  /** An object, or JSON text that is passed on as it is. Default `{}`. */
  readonly arguments?: string | object | undefined;
}

export interface ScriptedFailure {
  /** Fails after this many tokens of all choices together; never when the answer is shorter. Default 0: before the first. */
  readonly after_tokens?: number | undefined;
  readonly code: ScriptedFailureCode;
  /** Number of calls that fail, from the first on. Default: all. */
  readonly times?: number | undefined;
}

export type ScriptedFailureCode =
  | "internal_error"
  | "upstream_error"
  | "server_is_overloaded"
  | "upstream_timeout"
  | "context_length_exceeded";

/** The capabilities of a scripted model: all features that only shape text. A model that embeds or reranks has none of them. */
export function scriptedCapabilities(
  { dimensions, rerank = false, token_input }: ScriptedOptions,
  contextLength: number,
): BoundedCapabilities {
  const embeds = dimensions !== undefined;
  const generates = !embeds && !rerank;
  return {
    chat: generates,
    completion: generates,
    embeddings: embeds,
    rerank,
    contextLength,
    maxOutput: contextLength,
    ...(embeds ? { embeddingDims: dimensions, shortenableEmbeddings: true, maxEmbedTokens: contextLength } : {}),
    tools: "auto",
    toolChoice: true,
    parallelTools: true,
    jsonObject: true,
    jsonSchema: "full",
    grammar: true,
    logprobs: 20,
    echoLogprobs: true,
    logitBias: true,
    penalties: true,
    nativeN: true,
    tokenInput: token_input ?? false,
    vision: false,
    audio: false,
  };
}
