import type { DescMessage, DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { errorDomain, errorRow } from "../../contract/errors.js";
import { quote, retryAdvice, retryHeaders, ServiceError } from "../call/service-error.js";
import { limitHeaders } from "../metering/limit-response.js";

/** A status of gRPC or Connect as plain data. */
export interface StatusParts {
  /** gRPC status code, not 0. */
  readonly code: number;
  readonly message: string;
  /** Detail messages, packed as google.protobuf.Any. */
  readonly details: StatusDetail[];
  /** Sent with the status, as headers or trailers. */
  readonly metadata: Readonly<Record<string, string>>;
}

interface StatusDetail<D extends DescMessage = DescMessage> {
  readonly desc: D;
  readonly value: MessageInitShape<D>;
}

/**
 * The status of an error for every RPC protocol: the code, google.rpc.ErrorInfo with the error code as its reason,
 * BadRequest for the field at fault, RetryInfo for a wait, and as metadata the retry advice and the caller's limits.
 * Method null: the RPC is unknown.
 */
export function rpcStatus(error: ServiceError, method: DescMethod | null): StatusParts {
  const advice = retryAdvice(error);
  const details: StatusDetail[] = [errorInfo(error)];
  if (error.param !== null) details.push(badRequest(fieldPath(method, error.param), error.message));
  if (advice.waitMs !== null) details.push(retryInfo(advice.waitMs));
  return {
    code: errorRow(error.code).grpc,
    // JSON can contain a lone surrogate, which the percent encoding of grpc-message cannot represent.
    message: error.message.toWellFormed(),
    details,
    metadata: { ...retryHeaders(advice), ...limitHeaders(error) },
  };
}

function errorInfo({ code, type, param }: ServiceError): StatusDetail<typeof ErrorInfoSchema> {
  const metadata = { type, ...(param === null ? {} : { param: param.toWellFormed() }) };
  return { desc: ErrorInfoSchema, value: { domain: errorDomain, reason: code.toUpperCase(), metadata } };
}

function badRequest(field: string, message: string): StatusDetail<typeof BadRequestSchema> {
  return {
    desc: BadRequestSchema,
    value: { fieldViolations: [{ field: field.toWellFormed(), description: message.toWellFormed() }] },
  };
}

function retryInfo(waitMs: number): StatusDetail<typeof RetryInfoSchema> {
  return { desc: RetryInfoSchema, value: { retryDelay: durationFromMs(waitMs) } };
}

/** Converts OpenAI's field name to a path in the request message: inference requests have their fields in `params`. */
function fieldPath(method: DescMethod | null, param: string): string {
  return method?.input.fields.some((field) => field.name === "params") ? `params.${param}` : param;
}

/** Prefix of all RPC paths: all packages are `unified.*`. */
const pathPrefix = "/unified.";

/** Whether a path belongs to an RPC, whether the RPC exists or not. */
export function isRpcPath(path: string): boolean {
  return path.startsWith(pathPrefix);
}

/** Error for the path of an unknown RPC. */
export function unknownRpc(path: string): ServiceError {
  return new ServiceError("unknown_url", `This service has no RPC ${quote(path)}.`);
}
