import { describe, expect, it } from "vitest";
import { type ErrorCode, errorRow, errors, grpcStatus } from "../../../src/contract/errors.js";

/** HTTP statuses that match a gRPC status. */
const httpOfGrpc: Readonly<Record<keyof typeof grpcStatus, readonly number[]>> = {
  CANCELLED: [499],
  INVALID_ARGUMENT: [400, 415],
  DEADLINE_EXCEEDED: [504, 408],
  // HTTP 410 if the object existed before.
  NOT_FOUND: [404, 410],
  PERMISSION_DENIED: [403],
  // HTTP 429 for a limit of the caller; other statuses for a size.
  RESOURCE_EXHAUSTED: [429, 413, 431],
  ABORTED: [409],
  UNIMPLEMENTED: [404, 405],
  INTERNAL: [500],
  UNAVAILABLE: [503, 502],
  UNAUTHENTICATED: [401],
};
const codes = Object.keys(errors) as ErrorCode[];

describe("error table", () => {
  it("the HTTP and gRPC statuses of every row correspond (ERR-29)", () => {
    for (const [name, status] of Object.entries(grpcStatus) as [keyof typeof grpcStatus, number][]) {
      const rows = codes.map(errorRow).filter(({ grpc }) => grpc === status);
      for (const { http } of rows) expect(httpOfGrpc[name]).toContain(http);
    }
  });

  it("unsupported features are 400 and never 501, which SDKs would retry (ERR-29, ERR-8)", () => {
    expect(codes.map((code) => errorRow(code).http)).not.toContain(501);
    for (const code of ["unsupported_parameter", "unsupported_value", "model_not_supported"] as const) {
      expect(errorRow(code)).toMatchObject({ http: 400, retryable: false });
    }
  });

  it("a permanent error has a status that SDKs do not retry, or a header against retries (RETRY-3)", () => {
    const retriedBySdks = (http: number) => [408, 409, 429].includes(http) || http >= 500;
    for (const code of codes) {
      const { http, retryable, shouldRetry } = errorRow(code);
      if (!retryable && retriedBySdks(http)) expect({ code, shouldRetry }).toEqual({ code, shouldRetry: false });
    }
  });
});
