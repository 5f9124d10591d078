/**
 * Every error that a caller can see: one row per code, with its form on each wire. Statuses and types are OpenAI's where
 * OpenAI has one, so that SDKs raise the expected class. A test compares `docs/errors.md` with this table.
 */

/** gRPC status codes by name. Connect uses the same numbers. */
export const grpcStatus = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  ABORTED: 10,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

export type OpenAiErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "requests"
  | "tokens"
  | "insufficient_quota"
  | "server_error"
  | "service_unavailable_error";

export interface ErrorRow {
  /** HTTP status on `/v1`. */
  readonly http: number;
  /** `error.type` on `/v1`; `metadata.type` of google.rpc.ErrorInfo. */
  readonly type: OpenAiErrorType;
  /** gRPC and Connect status. */
  readonly grpc: number;
  /** Whether the same request can succeed later. 429 and 503 then carry `Retry-After`. */
  readonly retryable: boolean;
  /** Sent as `x-should-retry` where the status alone would mislead an SDK. */
  readonly shouldRetry?: boolean;
  /** When it is sent, for `docs/errors.md`. */
  readonly when: string;
}

const invalidRequest = { type: "invalid_request_error", retryable: false } as const;
const badRequest = { ...invalidRequest, http: 400, grpc: grpcStatus.INVALID_ARGUMENT } as const;
const notFound = { ...invalidRequest, http: 404, grpc: grpcStatus.NOT_FOUND } as const;
const tooLarge = { ...invalidRequest, grpc: grpcStatus.RESOURCE_EXHAUSTED } as const;
const limited = { http: 429, grpc: grpcStatus.RESOURCE_EXHAUSTED } as const;
const serverError = { type: "server_error", retryable: true } as const;
const unavailable = {
  http: 503,
  type: "service_unavailable_error",
  grpc: grpcStatus.UNAVAILABLE,
  retryable: true,
} as const;

export const errors = {
  missing_required_parameter: { ...badRequest, when: "A required field is absent or null." },
  invalid_type: { ...badRequest, when: "A field has the wrong JSON type." },
  invalid_value: { ...badRequest, when: "A field, header or identifier has a value that is not allowed." },
  integer_above_max_value: { ...badRequest, when: "An integer is above its maximum." },
  integer_below_min_value: { ...badRequest, when: "An integer is below its minimum." },
  decimal_above_max_value: { ...badRequest, when: "A number is above its maximum." },
  decimal_below_min_value: { ...badRequest, when: "A number is below its minimum." },
  array_above_max_length: { ...badRequest, when: "A list has more items than allowed." },
  empty_array: { ...badRequest, when: "A list that needs items has none." },
  string_above_max_length: { ...badRequest, when: "A text is longer than allowed." },
  invalid_json: {
    ...badRequest,
    when: "The body is not JSON, too deep, too large in tokens, or names a forbidden key.",
  },
  invalid_tool_messages: { ...badRequest, when: "Tool calls and tool messages of the conversation do not match." },
  invalid_function_parameters: { ...badRequest, when: "A tool's JSON Schema cannot be used." },
  invalid_json_schema: { ...badRequest, when: "The JSON Schema of response_format cannot be used." },
  unsupported_parameter: { ...badRequest, when: "A known field that this service or model does not offer." },
  unsupported_value: { ...badRequest, when: "A known value that this service or model does not offer." },
  model_not_supported: {
    ...badRequest,
    when: "The model cannot do this operation, e.g. chat with an embedding model.",
  },
  token_input_not_supported: { ...badRequest, when: "Token ids as input for a model that does not allow them." },
  context_length_exceeded: { ...badRequest, when: "The prompt alone is longer than the model's context." },
  previous_response_not_found: {
    ...badRequest,
    when: "The response to continue, or one before it, does not exist, has expired, or belongs to another account.",
  },
  content_policy_violation: { ...badRequest, when: "A safety policy refused the request before generation." },
  invalid_api_key: {
    ...invalidRequest,
    http: 401,
    type: "authentication_error",
    grpc: grpcStatus.UNAUTHENTICATED,
    when: "The key is missing, malformed, unknown, revoked, expired or in the wrong header.",
  },
  insufficient_permissions: {
    ...invalidRequest,
    http: 403,
    type: "permission_error",
    grpc: grpcStatus.PERMISSION_DENIED,
    when: "The key is valid but its scope does not cover the operation.",
  },
  model_not_found: { ...notFound, when: "The model does not exist, or the key may not use it: the answers are equal." },
  not_found: { ...notFound, when: "No such object, or one of another account: the answers are equal." },
  unknown_url: { ...notFound, grpc: grpcStatus.UNIMPLEMENTED, when: "No such path." },
  method_not_allowed: {
    ...invalidRequest,
    http: 405,
    grpc: grpcStatus.UNIMPLEMENTED,
    when: "The path exists, the method does not; `Allow` lists those that do.",
  },
  request_timeout: {
    ...invalidRequest,
    http: 408,
    grpc: grpcStatus.DEADLINE_EXCEEDED,
    retryable: true,
    when: "The request's headers or body arrived too slowly.",
  },
  conflict: {
    ...invalidRequest,
    http: 409,
    grpc: grpcStatus.ABORTED,
    retryable: true,
    when: "A concurrent request changed the object, or its state does not allow the operation.",
  },
  gone: { ...notFound, http: 410, when: "The object exists, but the data that the request needs has expired." },
  request_too_large: { ...tooLarge, http: 413, when: "The body or message is larger than limits.body_bytes_max." },
  unsupported_media_type: {
    ...badRequest,
    http: 415,
    when: "Content-Type is not JSON, or the body is compressed.",
  },
  request_headers_too_large: {
    ...tooLarge,
    http: 431,
    when: "The headers are larger than limits.header_bytes_max, or more than 100 lines.",
  },
  rate_limit_exceeded: {
    ...limited,
    type: "requests",
    retryable: true,
    when: "A limit of the key, the account or the model is reached; the type is `requests` or `tokens`.",
  },
  insufficient_quota: {
    ...limited,
    type: "insufficient_quota",
    retryable: false,
    shouldRetry: false,
    when: "A budget is used up; only its administrator can raise it.",
  },
  client_closed_request: {
    ...unavailable,
    http: 499,
    grpc: grpcStatus.CANCELLED,
    retryable: false,
    when: "The client disconnected. Seen in logs only.",
  },
  internal_error: {
    ...serverError,
    http: 500,
    grpc: grpcStatus.INTERNAL,
    when: "A fault of the service; the log has its cause under the request id.",
  },
  upstream_error: {
    ...serverError,
    http: 502,
    grpc: grpcStatus.UNAVAILABLE,
    when: "The engine stopped or gave an invalid answer.",
  },
  upstream_unauthorized: {
    ...serverError,
    http: 502,
    grpc: grpcStatus.UNAVAILABLE,
    retryable: false,
    shouldRetry: false,
    when: "An upstream server rejected the key of this service; its operator has to replace the key.",
  },
  upstream_rate_limited: { ...unavailable, when: "An upstream server limits the rate of this service's requests." },
  server_is_overloaded: {
    ...unavailable,
    when: "No slot became free in time, the queue is full, or all deployments are drained.",
  },
  model_loading: { ...unavailable, when: "The model is still being loaded." },
  model_not_loaded: { ...unavailable, when: "The model is in the catalog but its weights are not here." },
  server_shutting_down: { ...unavailable, when: "The service is stopping." },
  storage_unavailable: {
    ...unavailable,
    retryable: false,
    shouldRetry: false,
    when: "The store cannot be written, so the request cannot be accounted for.",
  },
  upstream_timeout: {
    ...serverError,
    http: 504,
    grpc: grpcStatus.DEADLINE_EXCEEDED,
    when: "The deadline passed before the answer was complete.",
  },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errors;

/** The row of a code, as the type that all rows share. */
export function errorRow(code: ErrorCode): ErrorRow {
  return errors[code];
}

/** `google.rpc.ErrorInfo.domain` of every error of this service. */
export const errorDomain = "unified-inference";
