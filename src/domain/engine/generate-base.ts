import type { GenerateRequest } from "./engine.js";

/** What belongs to the call: known when the request is given to an engine. */
export type OfCall = "requestId" | "deadlineAtMs" | "queueMs" | "cacheKey" | "deltas";

/**
 * An engine request in the making: built from the params, completed by the core. One object from the beginning to the
 * engine, with its last fields empty until then: a copy would cost every request.
 */
export type GenerateBase = Omit<GenerateRequest, OfCall> & {
  -readonly [Field in OfCall]: NonNullable<GenerateRequest[Field]>;
};
