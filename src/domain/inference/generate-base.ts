import type { GenerateRequest } from "./engine.js";

/** An engine request without what belongs to the call: built from the params, completed by the core. */
export type GenerateBase = Omit<GenerateRequest, "requestId" | "deadlineAtMs" | "queueMs" | "cacheKey" | "deltas">;
