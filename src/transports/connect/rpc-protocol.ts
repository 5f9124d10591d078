import type { IncomingHttpHeaders } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import {
  parseTimeout as parseConnectTimeout,
  parseContentType as parseConnectType,
} from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";
import { fixedLimits } from "../../contract/limits.js";

/** How a request wants to be answered. */
export type RpcProtocol = "connect_unary" | "connect_stream" | "grpc_web";

/** Bytes around the one message of an enveloped request: a flag and the message's length. */
const envelopeBytes = 5;

/** Longest timeout that a timer can keep. Longer ones are refused by the protocol's handler. */
export const timeoutMsMax = fixedLimits.int32Max;

/** The protocol that a content type stands for; null when the method is not served in it. */
export function protocolOf(method: DescMethod, contentType: string | undefined): RpcProtocol | null {
  if (contentType === undefined) return null;
  const grpcWeb = parseGrpcWebType(contentType);
  if (grpcWeb !== undefined) return grpcWeb.text ? null : "grpc_web";
  const connect = parseConnectType(contentType);
  if (connect === undefined || connect.stream === (method.methodKind === "unary")) return null;
  return connect.stream ? "connect_stream" : "connect_unary";
}

/** What a request body may weigh so that its message weighs `messageBytesMax`. */
export function bodyBytesMax(protocol: RpcProtocol, messageBytesMax: number): number {
  return protocol === "connect_unary" ? messageBytesMax : messageBytesMax + envelopeBytes;
}

/** The client's own deadline as a length; Infinity when it set none, or none that can be read: the handler refuses that. */
export function timeoutMsOf(protocol: RpcProtocol, headers: IncomingHttpHeaders): number {
  const parsed =
    protocol === "grpc_web"
      ? parseGrpcTimeout(textOf(headers["grpc-timeout"]), timeoutMsMax)
      : parseConnectTimeout(textOf(headers["connect-timeout-ms"]), timeoutMsMax);
  return parsed.error === undefined && parsed.timeoutMs !== undefined ? parsed.timeoutMs : Number.POSITIVE_INFINITY;
}

function textOf(value: string | string[] | undefined): string | null {
  return typeof value === "string" ? value : null;
}
