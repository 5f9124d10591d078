import { EngineError } from "../../domain/engine/engine.js";
import { contextOverflow } from "../../domain/inference/context-overflow.js";

/**
 * What a scripted model does, under `scripted:` of a deployment. The keys are spelled as in the configuration file,
 * which checks them. Times are milliseconds.
 */
export interface ScriptedOptions {
  /** What it says. Default: repeats the last user message, or the prompt. */
  readonly text?: string | undefined;
  /** Repeats or cuts the text to this many tokens. At least 0. */
  readonly tokens?: number | undefined;
  /** Wait before the first token, and before the vectors of an embedding model. Default 0. */
  readonly first_token_delay_ms?: number | undefined;
  /** Wait before every later token. Default 0. */
  readonly token_delay_ms?: number | undefined;
  /**
   * Calls that it makes when their tools are offered and the choice is `auto`. A required or named call takes its
   * arguments from here, or `{}`.
   */
  readonly tool_calls?: readonly ScriptedToolCall[] | undefined;
  /** The same for a single call. */
  readonly tool_call?: ScriptedToolCall | undefined;
  /** How its texts end, in place of `stop`. */
  readonly finish_reason?: "content_filter" | undefined;
  readonly fail?: ScriptedFailure | undefined;
  /** Says no more after this many tokens of all choices together, until it is aborted. 0: before the first. */
  readonly hang_after_tokens?: number | undefined;
  /** Length of its vectors. Makes it an embedding model and nothing else. At least 1. */
  readonly dimensions?: number | undefined;
  /** Tokens of prompt and answer together. Default: the deployment's. */
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
  /** Only the first so many calls fail. Default: all. */
  readonly times?: number | undefined;
}

export type ScriptedFailureCode =
  | "internal_error"
  | "upstream_error"
  | "server_is_overloaded"
  | "upstream_timeout"
  | "context_length_exceeded";

/** What had been produced when a call ended early. */
export interface ProducedUsage {
  readonly promptTokens: number;
  readonly outTokens: number;
  readonly cachedTokens: number;
}

/** Counts the calls of one model that still have to fail. */
export class Failures {
  readonly #failure: ScriptedFailure | undefined;
  #left: number;

  constructor(failure: ScriptedFailure | undefined) {
    this.#failure = failure;
    this.#left = failure === undefined ? 0 : (failure.times ?? Number.POSITIVE_INFINITY);
  }

  /** The failure of the call that begins now; null: it may succeed. */
  next(): { readonly afterTokens: number; readonly code: ScriptedFailureCode } | null {
    if (this.#failure === undefined || this.#left <= 0) return null;
    this.#left--;
    return { afterTokens: this.#failure.after_tokens ?? 0, code: this.#failure.code };
  }
}

/** The error that an engine would throw for what clients see as `code`. */
export function failureError(code: ScriptedFailureCode, contextLength: number, usage: ProducedUsage): EngineError {
  switch (code) {
    case "internal_error":
      return new EngineError("internal", "scripted failure", { retryable: true, usage });
    case "upstream_error":
      return new EngineError("upstream_error", "scripted failure", { retryable: true, usage });
    case "server_is_overloaded":
      return new EngineError("overloaded", "scripted failure", { retryable: true, usage });
    case "upstream_timeout":
      return new EngineError("timeout", "scripted failure", { retryable: true, usage });
    case "context_length_exceeded":
      return contextOverflow({ contextLength, promptTokens: contextLength + 1, maxTokens: null, usage });
  }
}
