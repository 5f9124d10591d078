import { create } from "@bufbuild/protobuf";
import { type Limits, LimitsSchema } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { type RateLimits, unlimited } from "../call/rate-limits.js";

/** Limits as a message; those that are not set are absent. */
export function limitsMessage({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): Limits {
  return create(LimitsSchema, {
    ...(requestsPerMinute === null ? {} : { requestsPerMinute: BigInt(requestsPerMinute) }),
    ...(tokensPerMinute === null ? {} : { tokensPerMinute: BigInt(tokensPerMinute) }),
    ...(concurrency === null ? {} : { concurrency }),
  });
}

/** Limits of a request, unchecked; absent ones are not set. */
export function limitsOf(message: Limits | undefined): RateLimits {
  if (message === undefined) return unlimited;
  const { requestsPerMinute, tokensPerMinute, concurrency } = message;
  return {
    requestsPerMinute: requestsPerMinute === undefined ? null : Number(requestsPerMinute),
    tokensPerMinute: tokensPerMinute === undefined ? null : Number(tokensPerMinute),
    concurrency: concurrency ?? null,
  };
}
