import { type ErrorCode, errorRow } from "../../contract/errors.js";
import { sha256Hex } from "../../lib/crypto.js";

/** An event before it is stored. Its bytes are created once and sent unchanged on every attempt (WH-12). */
export interface EventDraft {
  /** `evt_` and 32 hex digits, derived from the event, so that a repeated draft has the same id. */
  readonly id: string;
  readonly type: EventType;
  /** JSON. */
  readonly body: string;
}

export const eventTypes = ["request.completed", "request.failed", "usage.threshold_reached"] as const;

export type EventType = (typeof eventTypes)[number];

/** An event with a sum that the store computes: its body is `prefix`, the number and `suffix`. */
export interface EventAroundNumber {
  readonly id: string;
  readonly type: EventType;
  readonly prefix: string;
  readonly suffix: string;
}

export interface RequestFacts {
  readonly requestId: string;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly latencyMs: number;
}

/** The event of an answered request. Its data are exactly seven fields (WH-8). */
export function requestCompleted(facts: RequestFacts, atMs: number): EventDraft {
  return draft("request.completed", facts.requestId, atMs, {
    ...counts(facts),
    status: "completed",
  });
}

/** The error as the caller got it: no cause, no address, no content (WH-9, WH-13). */
export interface FailureFacts {
  /** An error's code, or `replica_lost` for a request whose process died. */
  readonly code: ErrorCode | "replica_lost";
  readonly message: string;
}

/** The event of a request that failed after all retries. */
export function requestFailed(facts: RequestFacts, failure: FailureFacts, atMs: number): EventDraft {
  const type = failure.code === "replica_lost" ? "server_error" : errorRow(failure.code).type;
  return draft("request.failed", facts.requestId, atMs, {
    ...counts(facts),
    status: "failed",
    error: { type, code: failure.code, message: failure.message },
  });
}

function counts({ requestId, model, promptTokens, completionTokens, latencyMs }: RequestFacts) {
  return {
    request_id: requestId,
    model,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    latency_ms: Math.max(0, Math.round(latencyMs)),
  };
}

/**
 * The id is a digest of request and type (WH-11). Id and body are computed lazily: most events have no receiver, and
 * then the store reads only the type.
 */
function draft(type: EventType, requestId: string, atMs: number, data: object): EventDraft {
  let id: string | undefined;
  return {
    type,
    get id() {
      id ??= `evt_${sha256Hex(`${requestId}/${type}`).slice(0, 32)}`;
      return id;
    },
    get body() {
      return JSON.stringify({ id: this.id, type, created_at: new Date(atMs).toISOString(), data });
    },
  };
}
