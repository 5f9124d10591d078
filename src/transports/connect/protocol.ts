import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  createEndStreamSerialization,
  endStreamFlag,
  errorToJsonBytes,
  parseTimeout as parseConnectTimeout,
  parseContentType as parseConnectType,
} from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import {
  parseContentType as parseGrpcWebType,
  setTrailerStatus,
  trailerFlag,
  trailerSerialize,
} from "@connectrpc/connect/protocol-grpc-web";
import { headers } from "../../contract/headers.js";
import type { StatusParts } from "../../domain/rpc/rpc-status.js";
import { answerAndLinger } from "../http/answer.js";

/** Protocol of a request. */
export type RpcProtocol = "connect_unary" | "connect_stream" | "grpc_web";

/** Protocol and codec of a request and of its answer. */
export interface RpcForm {
  readonly protocol: RpcProtocol;
  /** Messages are JSON; else binary protobuf. */
  readonly isJson: boolean;
  /** Content type of the answer. */
  readonly contentType: string;
}

const forms: readonly RpcForm[] = [
  { protocol: "connect_unary", isJson: true, contentType: "application/json" },
  { protocol: "connect_unary", isJson: false, contentType: "application/proto" },
  { protocol: "connect_stream", isJson: true, contentType: "application/connect+json" },
  { protocol: "connect_stream", isJson: false, contentType: "application/connect+proto" },
  { protocol: "grpc_web", isJson: true, contentType: "application/grpc-web+json" },
  { protocol: "grpc_web", isJson: false, contentType: "application/grpc-web+proto" },
];
const formsByType = new Map(forms.map((form) => [form.contentType, form]));

/** The form of a request with this content type; null for one that is not served here. */
export function formOf(contentType: string | undefined): RpcForm | null {
  return contentType === undefined ? null : (formsByType.get(contentType) ?? formOfVariant(contentType));
}

/** The form of a content type in another spelling: with a charset or with capital letters. */
function formOfVariant(contentType: string): RpcForm | null {
  const grpcWeb = parseGrpcWebType(contentType);
  if (grpcWeb !== undefined) return grpcWeb.text ? null : formWith("grpc_web", !grpcWeb.binary);
  const connect = parseConnectType(contentType);
  if (connect === undefined) return null;
  return formWith(connect.stream ? "connect_stream" : "connect_unary", !connect.binary);
}

function formWith(protocol: RpcProtocol, isJson: boolean): RpcForm | null {
  return forms.find((form) => form.protocol === protocol && form.isJson === isJson) ?? null;
}

/** Whether a method can be called in a protocol: Connect has one protocol for unary calls and one for streams. */
export function isServedIn(protocol: RpcProtocol, { methodKind }: DescMethod): boolean {
  return protocol !== (methodKind === "unary" ? "connect_stream" : "connect_unary");
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

/** Size of the prefix of each enveloped message: a byte of flags and the message's length. */
export const envelopeBytes = 5;

/** Flag of the envelope that ends a request or an answer. */
export const endFlags: Readonly<Record<Exclude<RpcProtocol, "connect_unary">, number>> = {
  connect_stream: endStreamFlag,
  grpc_web: trailerFlag,
};

/** A message in its envelope. */
export function enveloped(flags: number, message: Uint8Array | string): Buffer {
  const length = Buffer.byteLength(message);
  const bytes = Buffer.allocUnsafe(envelopeBytes + length);
  bytes[0] = flags;
  bytes.writeUInt32BE(length, 1);
  if (typeof message === "string") bytes.write(message, envelopeBytes);
  else bytes.set(message, envelopeBytes);
  return bytes;
}

const endOfStream = createEndStreamSerialization(undefined);

/**
 * The last envelope of an answer, with its trailers (names and values in turn) and its error. `failure` null: it succeeded.
 */
export function endEnvelope(
  protocol: Exclude<RpcProtocol, "connect_unary">,
  failure: StatusParts | null,
  trailers: readonly string[] = [],
): Buffer {
  const metadata = new Headers();
  for (let i = 0; i < trailers.length; i += 2) metadata.append(trailers[i] ?? "", trailers[i + 1] ?? "");
  const error = failure === null ? undefined : connectErrorOf(failure);
  if (protocol === "grpc_web") return enveloped(trailerFlag, trailerSerialize(setTrailerStatus(metadata, error)));
  return enveloped(endStreamFlag, endOfStream.serialize({ metadata, ...(error && { error }) }));
}

/** The error object that Connect's protocol code renders: as JSON, as an end-of-stream message or as trailers. */
function connectErrorOf({ code, message, details, metadata }: StatusParts): ConnectError {
  return new ConnectError(message, code, metadata, details);
}

/**
 * Responds with an error in the form of the protocol: a status and JSON, an end-of-stream message, or trailers only.
 * `protocol` null: JSON. `httpStatus`: status of an answer in JSON; null: the status that Connect specifies for the code.
 */
export function answerError(
  req: IncomingMessage,
  res: ServerResponse,
  protocol: RpcProtocol | null,
  status: StatusParts,
  requestId: string,
  httpStatus: number | null,
): void {
  const contentType = req.headers["content-type"] ?? "";
  const id = [headers.requestId, requestId];
  if (protocol === "connect_stream") {
    const own = ["content-type", contentType, ...id];
    answerAndLinger(req, res, 200, own, endEnvelope(protocol, status));
  } else if (protocol === "grpc_web") {
    const trailers = setTrailerStatus(new Headers({ "content-type": contentType }), connectErrorOf(status));
    answerAndLinger(req, res, 200, [...id, ...[...trailers].flat()], "");
  } else {
    const own = ["content-type", "application/json", ...id, ...Object.entries(status.metadata).flat()];
    const body = errorToJsonBytes(connectErrorOf(status), undefined);
    answerAndLinger(req, res, httpStatus ?? codeToHttpStatus(status.code), own, body);
  }
}
