import { EngineError } from "../../domain/engine/engine.js";
import { contextOverflow } from "../../domain/inference/context-overflow.js";
import type { ScriptedFailure, ScriptedFailureCode } from "./scripted-options.js";

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
