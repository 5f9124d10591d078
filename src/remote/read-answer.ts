import { fromBinary } from "@bufbuild/protobuf";
import { anyUnpack, durationMs } from "@bufbuild/protobuf/wkt";
import { type Metadata, type StatusObject, status as statusCode } from "@grpc/grpc-js";
import { type ErrorInfo, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { type ErrorCode, errorDomain, errors, type OpenAiErrorType } from "../contract/errors.js";
import { headers } from "../contract/headers.js";
import type { AnswerHead, AnswerRoute } from "../domain/call/call-context.js";
import { type LimitSnapshot, type LimitState, limitSnapshot } from "../domain/call/rate-limits.js";
import { ServiceError } from "../domain/call/service-error.js";
import { LimitError, readRefusal } from "../domain/metering/limit-response.js";

/** Failure of one attempt of a call. */
export class TryFailure extends Error {
  override readonly name = "TryFailure";
  /** Whether the core is unreachable or stopping, so that another core may serve the call. */
  readonly isGone: boolean;
  /** The error for the client if the call is not repeated. */
  readonly error: ServiceError;

  constructor(error: ServiceError, isGone: boolean) {
    super(error.message);
    this.error = error;
    this.isGone = isGone;
  }
}

/** Reads a status other than OK: by the reason in its ErrorInfo, or by its code if another program has created the status. */
export function readFailure(status: StatusObject): TryFailure {
  const { info, retryAfterMs } = detailsOf(status.metadata);
  const reason = info?.domain === errorDomain ? info.reason.toLowerCase() : "";
  if (info === null || !isErrorCode(reason)) return foreignFailure(status);
  const limits = readLimits(status.metadata);
  const shouldRetry = textOf(status.metadata, headers.shouldRetry);
  const options = {
    param: info.metadata["param"],
    type: info.metadata["type"] as OpenAiErrorType | undefined,
    retryAfterMs,
    // If the error has a wait, the advice whether to retry follows from its length.
    ...(shouldRetry === undefined || retryAfterMs !== undefined ? {} : { shouldRetry: shouldRetry === "true" }),
    limits,
    degraded: textOf(status.metadata, headers.limitsDegraded) !== undefined,
  };
  const refusal = readRefusal(textOf(status.metadata, headers.refusal));
  const error =
    refusal === null
      ? new ServiceError(reason, status.details, options)
      : new LimitError(status.details, refusal, options);
  return new TryFailure(error, reason === "server_shutting_down");
}

/** A failure without details of this service, such as a broken connection. Its text may have addresses: for the log only. */
function foreignFailure({ code, details }: StatusObject): TryFailure {
  const cause = new Error(`gRPC status ${code}: ${details}`);
  switch (code) {
    case statusCode.UNAVAILABLE:
    case statusCode.CANCELLED:
      return new TryFailure(coreGone(cause), true);
    case statusCode.DEADLINE_EXCEEDED:
      return new TryFailure(
        new ServiceError("upstream_timeout", "The deadline passed before the answer was complete.", { cause }),
        false,
      );
    case statusCode.RESOURCE_EXHAUSTED:
      return new TryFailure(
        new ServiceError(
          "request_too_large",
          "The request exceeds the maximum size of a message between a gateway and a core.",
          {
            cause,
          },
        ),
        false,
      );
    default:
      return new TryFailure(
        new ServiceError("internal_error", "The core that ran the request failed without a reason.", { cause }),
        false,
      );
  }
}

/** The error of a call whose core was lost, when no attempt is left or content was already sent. */
export function coreGone(cause: unknown): ServiceError {
  const sentence = "The core that ran the request was lost before the answer was complete. Send the request again.";
  return new ServiceError("upstream_error", sentence, { cause });
}

function detailsOf(metadata: Metadata): { info: ErrorInfo | null; retryAfterMs: number | undefined } {
  const [packed] = metadata.get("grpc-status-details-bin");
  if (!(packed instanceof Buffer)) return { info: null, retryAfterMs: undefined };
  try {
    let info: ErrorInfo | null = null;
    let retryAfterMs: number | undefined;
    for (const detail of fromBinary(StatusSchema, packed).details) {
      info ??= anyUnpack(detail, ErrorInfoSchema) ?? null;
      const delay = anyUnpack(detail, RetryInfoSchema)?.retryDelay;
      if (delay !== undefined) retryAfterMs = durationMs(delay);
    }
    return { info, retryAfterMs };
  } catch {
    // Not a google.rpc.Status: another program has answered.
    return { info: null, retryAfterMs: undefined };
  }
}

function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(errors, text);
}

/** Reads the head of an answer from its metadata. */
export function readHead(metadata: Metadata): AnswerHead {
  const limits = readLimits(metadata);
  const degraded = textOf(metadata, headers.limitsDegraded) !== undefined;
  return { ...readRoute(metadata), queueMs: 0, degraded, ...(limits === undefined ? {} : { limits }) };
}

/** Reads the deployment that answers from the metadata or the trailers of an answer. */
export function readRoute(metadata: Metadata): AnswerRoute {
  const deployment = textOf(metadata, headers.deployment);
  const model = textOf(metadata, headers.answeringModel);
  return {
    deployment: deployment === undefined ? "" : decodeURI(deployment),
    attempts: Number(textOf(metadata, headers.attempts) ?? 0),
    fallbackModel: model === undefined ? null : decodeURI(model),
  };
}

function readLimits(metadata: Metadata): LimitSnapshot | undefined {
  const { limitRequests, remainingRequests, resetRequests, limitTokens, remainingTokens, resetTokens } = headers;
  const requests = readLimit(metadata, limitRequests, remainingRequests, resetRequests);
  const tokens = readLimit(metadata, limitTokens, remainingTokens, resetTokens);
  if (requests === undefined && tokens === undefined) return undefined;
  return limitSnapshot(requests, tokens);
}

function readLimit(metadata: Metadata, limit: string, remaining: string, reset: string): LimitState | undefined {
  const most = textOf(metadata, limit);
  if (most === undefined) return undefined;
  return {
    // The core does not send the owner of the limit, which a gateway does not need.
    owner: { kind: "key", id: "" },
    limit: Number(most),
    remaining: Number(textOf(metadata, remaining) ?? 0),
    resetMs: readGoDuration(textOf(metadata, reset) ?? "0s"),
  };
}

const unitMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Milliseconds of a Go duration such as `6m0s` or `12ms`; 0 for any other text. */
export function readGoDuration(text: string): number {
  let ms = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)) {
    ms += Number(amount) * (unitMs[unit ?? ""] ?? 0);
  }
  return Math.round(ms);
}

export function textOf(metadata: Metadata, name: string): string | undefined {
  const [value] = metadata.get(name);
  return typeof value === "string" ? value : undefined;
}
