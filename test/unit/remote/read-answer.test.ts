import { Metadata, status } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { headers } from "../../../src/contract/headers.js";
import { ServiceError } from "../../../src/domain/call/service-error.js";
import {
  errorOfRefusal,
  goDuration,
  LimitError,
  RejectionCache,
  refusalText,
} from "../../../src/domain/metering/limit-response.js";
import { readFailure, readGoDuration, readHead } from "../../../src/remote/read-answer.js";
import { grpcStatus } from "../../../src/transports/grpc/call.js";

describe("readFailure, for a failed call to a core", () => {
  const limits = {
    requests: { owner: { kind: "key", id: "k" }, limit: 10, remaining: 0, resetMs: 61_000 },
  } as const;

  it.each([
    new ServiceError("invalid_value", "'top_p' is wrong.", { param: "top_p" }),
    new ServiceError("rate_limit_exceeded", "Too many.", {
      type: "tokens",
      retryAfterMs: 1_500,
      limits,
      degraded: true,
    }),
    new ServiceError("rate_limit_exceeded", "Far too many.", { retryAfterMs: 90_000, limits }),
    new ServiceError("insufficient_quota", "Used up."),
    new ServiceError("upstream_error", "It broke."),
  ])("restores the error that the core itself would send to a client (REL-24)", (error) => {
    const { error: read, isGone } = readFailure(grpcStatus(error, null, "req_1"));
    expect(isGone).toBe(false);
    const again = (one: ServiceError) => grpcStatus(one, null, "req_1");
    expect(again(read).details).toBe(again(error).details);
    expect(again(read).code).toBe(again(error).code);
    expect(again(read).metadata.toJSON()).toEqual(again(error).metadata.toJSON());
  });

  it.each([
    { code: status.UNAVAILABLE, isGone: true, answer: "upstream_error" },
    { code: status.CANCELLED, isGone: true, answer: "upstream_error" },
    { code: status.DEADLINE_EXCEEDED, isGone: false, answer: "upstream_timeout" },
    { code: status.RESOURCE_EXHAUSTED, isGone: false, answer: "request_too_large" },
    { code: status.INTERNAL, isGone: false, answer: "internal_error" },
  ])("maps status $code without a reason to an error without addresses (REL-25)", ({ code, isGone, answer }) => {
    const failure = readFailure({ code, details: "connect ECONNREFUSED 10.0.0.5:50051", metadata: new Metadata() });
    expect(failure).toMatchObject({ isGone, error: { code: answer } });
    expect(failure.error.message).not.toContain("10.0.0.5");
  });

  it("restores a rejection that the gateway can cache, if the core names the limit (REL-24)", () => {
    const owner = { kind: "key", id: "k" } as const;
    const refusal = { which: "requests", owner, limit: 10, used: 10, requested: 1, retryAfterMs: 61_000 } as const;
    const refused = errorOfRefusal({ refusal, snapshot: limits, degraded: false });
    const status = grpcStatus(refused, null, "req_1");
    status.metadata.set(headers.refusal, refusalText(refused) ?? "");
    const cache = new RejectionCache({ monotonic: () => 0 });
    const { error } = readFailure(status);
    expect(error).toBeInstanceOf(LimitError);
    cache.note((error as LimitError).toRefused());
    expect(() => cache.check("create_chat_completion", { keyId: "k", account: "a" })).toThrow(refused.message);
    expect(refusalText(errorOfRefusal({ refusal, degraded: true }))).toBeNull();
  });

  it("marks the call as repeatable on another core when this core is stopping (REL-25)", () => {
    const stopping = new ServiceError("server_shutting_down", "It stops.", { retryAfterMs: 1_000 });
    expect(readFailure(grpcStatus(stopping, null, "req_1")).isGone).toBe(true);
  });
});

it("readGoDuration reads the durations that the headers of limits contain", () => {
  for (const ms of [0, 1, 999, 1_000, 7_660, 60_000, 360_000, 3_600_000, 86_400_123]) {
    expect(readGoDuration(goDuration(ms))).toBe(ms);
  }
});

it("readHead decodes names of deployments and models, also with characters outside ASCII (REL-24)", () => {
  const metadata = new Metadata();
  metadata.set("x-uis-deployment", encodeURI("gpu/größer"));
  metadata.set("x-uis-attempts", "2");
  metadata.set("x-uis-model", "other");
  expect(readHead(metadata)).toEqual({
    deployment: "gpu/größer",
    attempts: 2,
    fallbackModel: "other",
    queueMs: 0,
    degraded: false,
  });
});
