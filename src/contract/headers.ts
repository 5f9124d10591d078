/** Public names of headers and metadata. Lower case, as Node and gRPC use them. */
export const headers = {
  requestId: "x-request-id",
  /** Name of the request id in Anthropic's API. */
  anthropicRequestId: "request-id",
  clientRequestId: "x-client-request-id",
  processingMs: "openai-processing-ms",
  version: "openai-version",
  retryAfter: "retry-after",
  retryAfterMs: "retry-after-ms",
  shouldRetry: "x-should-retry",
  requestTimeout: "x-request-timeout",
  stainlessRetryCount: "x-stainless-retry-count",
  limitRequests: "x-ratelimit-limit-requests",
  limitTokens: "x-ratelimit-limit-tokens",
  remainingRequests: "x-ratelimit-remaining-requests",
  remainingTokens: "x-ratelimit-remaining-tokens",
  resetRequests: "x-ratelimit-reset-requests",
  resetTokens: "x-ratelimit-reset-tokens",
  limitsDegraded: "x-ratelimit-degraded",
  traceparent: "traceparent",
  deployment: "x-uis-deployment",
  attempts: "x-uis-attempts",
  answeringModel: "x-uis-model",
  fallback: "x-uis-fallback",
  /** From a gateway to its cores: signed data about the client. */
  forwarded: "x-uis-forwarded",
  /** From a core to a gateway: id and prompt tokens of the answer to a translated request. */
  answer: "x-uis-answer",
  /** From a core to a trusted gateway: facts about a rejection of a caller that has reached a request limit. */
  refusal: "x-uis-refusal",
} as const;

/** Headers of a cross-origin response that browsers expose to scripts (CORS-4), in addition to the safe-listed ones. */
export const exposedHeaders = [
  headers.requestId,
  headers.anthropicRequestId,
  headers.clientRequestId,
  headers.retryAfter,
  headers.retryAfterMs,
  headers.shouldRetry,
  headers.processingMs,
  headers.limitRequests,
  headers.limitTokens,
  headers.remainingRequests,
  headers.remainingTokens,
  headers.resetRequests,
  headers.resetTokens,
  headers.limitsDegraded,
  ...["requests", "tokens", "input-tokens", "output-tokens"].flatMap((what) =>
    ["limit", "remaining", "reset"].map((which) => `anthropic-ratelimit-${what}-${which}`),
  ),
  headers.deployment,
  headers.attempts,
  headers.answeringModel,
  "grpc-status",
  "grpc-message",
  "grpc-status-details-bin",
] as const;
