import type { IncomingHttpHeaders } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import {
  parseTimeout as parseConnectTimeout,
  parseContentType as parseConnectType,
} from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";

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
export function isServedIn(protocol: RpcProtocol | null, { methodKind }: DescMethod): boolean {
  return protocol !== null && protocol !== (methodKind === "unary" ? "connect_stream" : "connect_unary");
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
