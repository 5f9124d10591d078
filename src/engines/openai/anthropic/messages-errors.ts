import type { ErrorForms } from "../protocol/upstream-failure.js";

/** The errors of Anthropic's API, which has a type for each status and names a field at the start of the message. */
export const messagesErrors: ErrorForms = {
  statuses: {
    invalid_request_error: 400,
    authentication_error: 401,
    billing_error: 402,
    permission_error: 403,
    not_found_error: 404,
    request_too_large: 413,
    rate_limit_error: 429,
    api_error: 500,
    timeout_error: 504,
    overloaded_error: 529,
  },
  fields: {
    messages: "messages",
    system: "messages",
    max_tokens: "max_tokens",
    stop_sequences: "stop",
    temperature: "temperature",
    top_k: "top_k",
    top_p: "top_p",
    tools: "tools",
    tool_choice: "tool_choice",
    thinking: "reasoning_effort",
    output_config: "response_format",
  },
  blamesAccount: /credit balance is too low/i,
};
