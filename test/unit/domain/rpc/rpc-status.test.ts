import { describe, expect, it } from "vitest";
import { ApiKeyService } from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { InferenceService } from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { type ErrorCode, errorRow, errors } from "../../../../src/contract/errors.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { rpcStatus } from "../../../../src/domain/rpc/rpc-status.js";

const inference = InferenceService.method.createChatCompletion;
const codes = Object.keys(errors) as ErrorCode[];

describe("rpcStatus", () => {
  it.each(codes)("%s has its gRPC status, its error code as the reason and its error type of OpenAI's API", (code) => {
    const status = rpcStatus(new ServiceError(code, "what happened"), inference);
    expect(status.code).toBe(errorRow(code).grpc);
    expect(status.message).toBe("what happened");
    expect(status.details[0]?.value).toEqual({
      domain: "unified-inference",
      reason: code.toUpperCase(),
      metadata: { type: errorRow(code).type },
    });
  });

  it("the invalid field is named as in OpenAI's API and as a path in the request message", () => {
    const error = new ServiceError("invalid_value", "wrong", { param: "name" });
    const violation = { fieldViolations: [{ field: "name", description: "wrong" }] };
    expect(rpcStatus(error, ApiKeyService.method.createApiKey).details[1]?.value).toEqual(violation);
    expect(rpcStatus(error, inference).details[1]?.value).toEqual({
      fieldViolations: [{ field: "params.name", description: "wrong" }],
    });
    expect(rpcStatus(error, inference).details[0]?.value).toMatchObject({ metadata: { param: "name" } });
  });
});

describe("retry advice", () => {
  const metadataOf = (code: ErrorCode, options = {}) =>
    rpcStatus(new ServiceError(code, "later", options), inference).metadata;

  it("429 and 503 carry a wait in seconds and in milliseconds (RETRY-1)", () => {
    expect(metadataOf("rate_limit_exceeded", { retryAfterMs: 1_001 })).toEqual({
      "retry-after": "2",
      "retry-after-ms": "1001",
    });
    expect(metadataOf("server_is_overloaded")).toEqual({ "retry-after": "1", "retry-after-ms": "1000" });
    expect(metadataOf("server_is_overloaded", { retryAfterMs: 0 })).toEqual({
      "retry-after": "1",
      "retry-after-ms": "1",
    });
  });

  it("a wait above a minute is sent in the headers and as RetryInfo, with the advice not to retry (RETRY-2, GRPC-10)", () => {
    expect(metadataOf("rate_limit_exceeded", { retryAfterMs: 60_000 })).toMatchObject({ "retry-after": "60" });
    const status = rpcStatus(new ServiceError("rate_limit_exceeded", "later", { retryAfterMs: 90_000 }), inference);
    expect(status.metadata).toEqual({ "retry-after": "90", "retry-after-ms": "90000", "x-should-retry": "false" });
    expect(status.details[1]?.value).toMatchObject({ retryDelay: { seconds: 90n } });
  });

  it("permanent errors advise against retrying (RETRY-3)", () => {
    expect(metadataOf("storage_unavailable")).toEqual({ "x-should-retry": "false" });
    expect(metadataOf("insufficient_quota")).toEqual({ "x-should-retry": "false" });
    expect(metadataOf("invalid_value")).toEqual({});
    expect(metadataOf("internal_error")).toEqual({});
  });
});
