import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { encodeEnvelope, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import {
  codeToHttpStatus,
  createEndStreamSerialization,
  endStreamFlag,
  endStreamFromJson,
  errorFromJsonBytes,
  errorToJsonBytes,
  parseTimeout as parseConnectTimeout,
  parseContentType as parseConnectType,
} from "@connectrpc/connect/protocol-connect";
import { findTrailerError, parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import {
  parseContentType as parseGrpcWebType,
  setTrailerStatus,
  trailerParse,
} from "@connectrpc/connect/protocol-grpc-web";
import { ServiceError } from "../../domain/call/service-error.js";
import type { StatusParts } from "../../domain/rpc/rpc-status.js";
import { answerAndLinger } from "../http/answer.js";

/** Protocol of a request. */
export type RpcProtocol = "connect_unary" | "connect_stream" | "grpc_web";

/** Bytes around the one message of an enveloped request: a flag and the message's length. */
const envelopeBytes = 5;

/** The protocol of a content type; null for one that is not served here. */
export function protocolOf(contentType: string | undefined): RpcProtocol | null {
  if (contentType === undefined) return null;
  const grpcWeb = parseGrpcWebType(contentType);
  if (grpcWeb !== undefined) return grpcWeb.text ? null : "grpc_web";
  const connect = parseConnectType(contentType);
  if (connect === undefined) return null;
  return connect.stream ? "connect_stream" : "connect_unary";
}

/** Whether a method can be called in a protocol: Connect has one for unary calls and one for streams. */
export function isServedIn(protocol: RpcProtocol, { methodKind }: DescMethod): boolean {
  return protocol !== (methodKind === "unary" ? "connect_stream" : "connect_unary");
}

/** Whether the messages of a content type are JSON; other messages are binary protobuf. */
export function isJsonType(contentType: string | undefined): boolean {
  return contentType !== undefined && /[/+]json\b/i.test(contentType);
}

/** The encoded message of a whole body, without the envelope around it. */
export function messageIn<B extends Uint8Array>(body: B, protocol: RpcProtocol): B {
  return protocol === "connect_unary" ? body : (body.subarray(envelopeBytes) as B);
}

/** Size limit of a request body whose message may have `messageBytesMax`. */
export function bodyBytesMax(protocol: RpcProtocol, messageBytesMax: number): number {
  return protocol === "connect_unary" ? messageBytesMax : messageBytesMax + envelopeBytes;
}

/** Names of the headers with the client's own deadline. */
export const timeoutHeaders: Readonly<Record<RpcProtocol, string>> = {
  connect_unary: "connect-timeout-ms",
  connect_stream: "connect-timeout-ms",
  grpc_web: "grpc-timeout",
};

/** The client's own deadline as a duration in milliseconds; Infinity without one, null when it cannot be parsed. */
export function timeoutMsOf(protocol: RpcProtocol, headers: IncomingHttpHeaders): number | null {
  const value = headers[timeoutHeaders[protocol]];
  if (value === undefined) return Number.POSITIVE_INFINITY;
  const parse = protocol === "grpc_web" ? parseGrpcTimeout : parseConnectTimeout;
  const { timeoutMs, error } = parse(String(value), Number.MAX_SAFE_INTEGER);
  return error === undefined && timeoutMs !== undefined ? timeoutMs : null;
}

/** The error object that Connect's protocol code renders: as JSON, as an end-of-stream message or as trailers. */
export function toConnectError({ code, message, details, metadata }: StatusParts): ConnectError {
  return new ConnectError(message, code, metadata, details);
}

const endOfStream = createEndStreamSerialization(undefined);

/**
 * Responds with an error in the form of the protocol: a status and JSON, an end-of-stream message, or trailers only.
 * Without a protocol the answer is JSON. `httpStatus` is that of JSON; null: the one that Connect has for the code.
 */
export function answerError(
  req: IncomingMessage,
  res: ServerResponse,
  protocol: RpcProtocol | null,
  status: StatusParts,
  httpStatus: number | null,
): void {
  const error = toConnectError(status);
  const contentType = req.headers["content-type"] ?? "";
  if (protocol === "connect_stream") {
    const end = endOfStream.serialize({ metadata: new Headers(), error });
    answerAndLinger(req, res, 200, { "content-type": contentType }, encodeEnvelope(endStreamFlag, end));
  } else if (protocol === "grpc_web") {
    const trailers = setTrailerStatus(new Headers({ "content-type": contentType }), error);
    answerAndLinger(req, res, 200, Object.fromEntries(trailers), "");
  } else {
    const headers = { "content-type": "application/json", ...status.metadata };
    const body = errorToJsonBytes(error, undefined);
    answerAndLinger(req, res, httpStatus ?? codeToHttpStatus(error.code), headers, body);
  }
}

/**
 * The error of Connect's handler for a message that it cannot read. The handler exposes it nowhere but in its finished
 * response.
 */
export async function readError({ body }: UniversalServerResponse, protocol: RpcProtocol): Promise<ConnectError> {
  const parts: Uint8Array[] = [];
  for await (const part of body ?? []) parts.push(part);
  const answer = messageIn(Buffer.concat(parts), protocol);
  const unknown = new ConnectError("it does not match the request type of this RPC", Code.InvalidArgument);
  if (protocol === "connect_stream") return endStreamFromJson(answer).error ?? unknown;
  if (protocol === "grpc_web") return findTrailerError(trailerParse(answer)) ?? unknown;
  return errorFromJsonBytes(answer, undefined, unknown);
}

const encodingHeaders = ["content-encoding", "connect-content-encoding", "grpc-encoding"] as const;

/** The error of this service for a message that Connect cannot read. */
export function errorOfUnread(
  { code, rawMessage }: ConnectError,
  { headers }: IncomingMessage,
  requestMessage: Buffer,
): ServiceError {
  const encoding = encodingHeaders.map((name) => headers[name]).find((value) => value !== undefined);
  if (code === Code.Unimplemented && encoding !== undefined) {
    const message = `Compressed messages ('${encoding}') are not supported: send the message with the encoding 'identity'.`;
    return new ServiceError("unsupported_media_type", message);
  }
  const message = `The request's message cannot be read: ${rawMessage}`;
  if (code === Code.ResourceExhausted) return new ServiceError("request_too_large", message);
  const isBroken = isJsonType(headers["content-type"]) && !isJson(requestMessage);
  return new ServiceError(isBroken ? "invalid_json" : "invalid_value", message);
}

function isJson(message: Buffer): boolean {
  try {
    JSON.parse(message.toString());
    return true;
  } catch {
    return false;
  }
}
