import { type ErrorCode, errorRow } from "../../contract/errors.js";
import { ServiceError, toServiceError } from "../call/service-error.js";
import { EngineError, type EngineErrorCode, type EngineUsage } from "./engine.js";

/** The public code of each engine error; without a `text` the engine's own message is public. */
interface PublicError {
  readonly code: ErrorCode;
  readonly text?: string;
  /** Retry-After if the engine gives none. */
  readonly retryAfterMs?: number;
}

const publicErrors: Readonly<Partial<Record<EngineErrorCode, PublicError>>> = {
  context_overflow: { code: "context_length_exceeded" },
  unsupported: { code: "unsupported_parameter" },
  bad_schema: { code: "invalid_json_schema" },
  bad_input: { code: "invalid_value" },
  overloaded: {
    code: "server_is_overloaded",
    text: "The model has no free slot. Try again in a moment.",
    retryAfterMs: 1_000,
  },
  model_loading: { code: "model_loading", text: "The model is still being loaded.", retryAfterMs: 10_000 },
  model_not_loaded: { code: "model_not_loaded", text: "The model's weights are not loaded.", retryAfterMs: 10_000 },
  engine_restarted: { code: "upstream_error", text: "The engine stopped unexpectedly." },
  upstream_error: { code: "upstream_error", text: "The server of the model failed, or could not be reached." },
  unauthorized: { code: "upstream_unauthorized", text: "The upstream server rejected this service's key." },
  forbidden: {
    code: "upstream_unauthorized",
    text: "The upstream server does not allow this service's key to use the model.",
  },
  rate_limited: {
    code: "upstream_rate_limited",
    text: "The upstream server limits the rate of requests. Try again later.",
    retryAfterMs: 1_000,
  },
  timeout: { code: "upstream_timeout", text: "The engine did not answer in time." },
};

/** Converts anything that an engine threw into the error for the caller, with the thrown value as the logged cause. */
export function serviceErrorOf(thrown: unknown): ServiceError {
  const known = thrown instanceof EngineError ? publicErrors[thrown.code] : undefined;
  // A requested abort has its reason in the signal; any other `aborted` error is a bug.
  if (!(thrown instanceof EngineError) || known === undefined) return toServiceError(thrown);
  const { message, param } = thrown;
  if (known.text === undefined) {
    const ofTool = thrown.code === "bad_schema" && param?.startsWith("tools");
    const code = ofTool ? "invalid_function_parameters" : known.code;
    return new ServiceError(code, message, { param: param ?? undefined, cause: thrown });
  }
  // It loads again by itself only where the engine says so (ERR-24).
  if (thrown.code === "model_not_loaded" && !thrown.retryable) {
    return new ServiceError(known.code, known.text, { cause: thrown, shouldRetry: false });
  }
  const wait = known.retryAfterMs === undefined ? {} : { retryAfterMs: thrown.retryAfterMs ?? known.retryAfterMs };
  return new ServiceError(known.code, known.text, { cause: thrown, ...wait });
}

/** Whether another deployment may succeed where this one failed. */
export function mayFailOver(error: ServiceError): boolean {
  const { http } = errorRow(error.code);
  return http === 502 || http === 503 || http === 504;
}

/**
 * Error for a prompt that is longer than the model's context. Client tools parse the first words of the message, so these
 * must not change (ERR-26).
 */
export function contextOverflow(given: {
  readonly contextLength: number;
  readonly promptTokens: number;
  /** True: the tokens were not counted, and `promptTokens` is a lower bound. Default false. */
  readonly isAtLeast?: boolean;
  /** Requested output tokens; null if unlimited. */
  readonly maxTokens: number | null;
  /** The field at fault; default `messages`. */
  readonly param?: string;
  readonly usage?: EngineUsage;
}): EngineError {
  const { contextLength, promptTokens, isAtLeast, maxTokens, param = "messages", usage } = given;
  const requested = maxTokens ?? "no particular number of";
  return new EngineError(
    "context_overflow",
    `This model's maximum context length is ${contextLength} tokens, but the prompt has ${amount(promptTokens, isAtLeast)} tokens ` +
      `and ${requested} output tokens were requested. Shorten the prompt.`,
    { param, ...(usage === undefined ? {} : { usage }) },
  );
}

/** The `context_overflow` error for one input of embeddings, or one document of reranking. */
export function inputOverflow(given: {
  readonly contextLength: number;
  /** The field at fault: `input[3]`. */
  readonly param: string;
  /** Name of the text that is too long, as the subject of the message. Default: the field. */
  readonly what?: string;
  readonly inputTokens: number;
  /** True: `inputTokens` is a lower bound. Default false. */
  readonly isAtLeast?: boolean;
}): EngineError {
  const { contextLength, param, what = param, inputTokens, isAtLeast } = given;
  return new EngineError(
    "context_overflow",
    `This model's maximum context length is ${contextLength} tokens, but ${what} has ${amount(inputTokens, isAtLeast)} tokens. ` +
      "Shorten it or split it.",
    { param },
  );
}

function amount(tokens: number, isAtLeast = false): string {
  return isAtLeast ? `at least ${tokens}` : String(tokens);
}
