import type { IncomingMessage } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import { endStreamFromJson, errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { trailerParse } from "@connectrpc/connect/protocol-grpc-web";
import { ServiceError } from "../../domain/call/service-error.js";
import { isJsonType, messageIn, type RpcProtocol } from "./rpc-protocol.js";

/**
 * The error with which Connect's handler answers a request whose message it cannot read. The handler shows it nowhere
 * but in its finished answer.
 */
export async function refusalIn({ body }: UniversalServerResponse, protocol: RpcProtocol): Promise<ConnectError> {
  const parts: Uint8Array[] = [];
  for await (const part of body ?? []) parts.push(part);
  const answer = messageIn(Buffer.concat(parts), protocol);
  const unknown = new ConnectError("it is not what this RPC takes", Code.InvalidArgument);
  switch (protocol) {
    case "connect_stream":
      return endStreamFromJson(answer).error ?? unknown;
    case "grpc_web":
      return findTrailerError(trailerParse(answer)) ?? unknown;
    default:
      return errorFromJsonBytes(answer, undefined, unknown);
  }
}

const encodingHeaders = ["content-encoding", "connect-content-encoding", "grpc-encoding"] as const;

/** The same as an error of this service. */
export function errorOfUnread(
  { code, rawMessage }: ConnectError,
  { headers }: IncomingMessage,
  protocol: RpcProtocol,
  body: Uint8Array,
): ServiceError {
  const encoding = encodingHeaders.map((name) => headers[name]).find((value) => value !== undefined);
  if (code === Code.Unimplemented && encoding !== undefined) {
    const message = `Compressed messages ('${encoding}') are not supported: send the message with the encoding 'identity'.`;
    return new ServiceError("unsupported_media_type", message);
  }
  const message = `The request's message cannot be read: ${rawMessage}`;
  if (code === Code.ResourceExhausted) return new ServiceError("request_too_large", message);
  const isBroken = isJsonType(headers["content-type"]) && !isJson(messageIn(body, protocol));
  return new ServiceError(isBroken ? "invalid_json" : "invalid_value", message);
}

function isJson(message: Uint8Array): boolean {
  try {
    JSON.parse(Buffer.from(message).toString());
    return true;
  } catch {
    return false;
  }
}
