/** Header and metadata names that outsiders depend on. Lower case, as Node and gRPC use them. */
export const headers = {
  requestId: "x-request-id",
  clientRequestId: "x-client-request-id",
  processingMs: "openai-processing-ms",
  version: "openai-version",
  retryAfter: "retry-after",
  retryAfterMs: "retry-after-ms",
  shouldRetry: "x-should-retry",
  requestTimeout: "x-request-timeout",
  stainlessRetryCount: "x-stainless-retry-count",
} as const;

/** What a browser may read of a cross-origin answer (CORS-4), beside the safe-listed headers. */
export const exposedHeaders = [
  "x-request-id",
  "x-client-request-id",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
  "openai-processing-ms",
  "x-ratelimit-limit-requests",
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-requests",
  "x-ratelimit-reset-tokens",
  "grpc-status",
  "grpc-message",
  "grpc-status-details-bin",
] as const;
