import { errorRow } from "../../contract/errors.js";
import { assertNever, ServiceError, toServiceError } from "../call/service-error.js";
import { EngineError } from "./engine.js";

const overloadedRetryMs = 1_000;
const loadingRetryMs = 10_000;

/**
 * Converts anything that an engine threw into the error for the caller. An engine's own text is public for rejected
 * requests only; for other failures the text is fixed and the engine's error is the logged cause.
 */
export function serviceErrorOf(thrown: unknown): ServiceError {
  return thrown instanceof EngineError ? translate(thrown) : toServiceError(thrown);
}

/** Whether another deployment may succeed where this one failed. */
export function mayGoElsewhere(error: ServiceError): boolean {
  const { http } = errorRow(error.code);
  return http === 502 || http === 503;
}

function translate(error: EngineError): ServiceError {
  const options = { cause: error };
  const refusal = { param: error.param ?? undefined, cause: error };
  switch (error.code) {
    case "context_overflow":
      return new ServiceError("context_length_exceeded", error.message, refusal);
    case "unsupported":
      return new ServiceError("unsupported_parameter", error.message, refusal);
    case "bad_schema":
      return new ServiceError(badSchemaCode(error.param), error.message, refusal);
    case "bad_input":
      return new ServiceError("invalid_value", error.message, refusal);
    case "overloaded":
      return new ServiceError("server_is_overloaded", "The model has no free slot. Try again in a moment.", {
        ...options,
        retryAfterMs: error.retryAfterMs ?? overloadedRetryMs,
      });
    case "model_loading":
      return new ServiceError("model_loading", "The model is still being loaded.", {
        ...options,
        retryAfterMs: error.retryAfterMs ?? loadingRetryMs,
      });
    case "model_not_loaded":
      return new ServiceError("model_not_loaded", "The model's weights are not loaded.", {
        ...options,
        retryAfterMs: error.retryAfterMs ?? loadingRetryMs,
      });
    case "engine_restarted":
    case "upstream_error":
      return new ServiceError("upstream_error", "The engine stopped unexpectedly.", options);
    case "timeout":
      return new ServiceError("upstream_timeout", "The engine did not answer in time.", options);
    // A requested abort carries its reason in the signal; any other is a bug.
    case "aborted":
    case "internal":
      return toServiceError(error);
    default:
      return assertNever(error.code);
  }
}

function badSchemaCode(param: string | null): "invalid_function_parameters" | "invalid_json_schema" {
  return param?.startsWith("tools") ? "invalid_function_parameters" : "invalid_json_schema";
}
