import type { IncomingMessage, ServerResponse } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { encodeEnvelope, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import {
  codeToHttpStatus,
  createEndStreamSerialization,
  endStreamFlag,
  endStreamFromJson,
  errorFromJsonBytes,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { setTrailerStatus, trailerParse } from "@connectrpc/connect/protocol-grpc-web";
import { ServiceError } from "../../domain/call/service-error.js";
import type { StatusParts } from "../../domain/rpc/rpc-status.js";
import { answerAndLinger } from "../http/answer.js";
import { isJsonType, messageIn, type RpcProtocol } from "./protocol.js";

/** The error object that Connect's protocol code renders: as JSON, as an end-of-stream message or as trailers. */
export function toConnectError({ code, message, details, metadata }: StatusParts): ConnectError {
  return new ConnectError(message, code, metadata, details);
}

const endOfStream = createEndStreamSerialization(undefined);

/**
 * Responds with an error in the form of the protocol: a status and
 * JSON, an end-of-stream message, or trailers only. Without a protocol the answer is JSON. `httpStatus` is that of JSON;
 * null: the one that Connect has for the code.
 */
export function refuse(
  req: IncomingMessage,
  res: ServerResponse,
  protocol: RpcProtocol | null,
  status: StatusParts,
  httpStatus: number | null,
): void {
  const error = toConnectError(status);
  const contentType = req.headers["content-type"] ?? "";
  switch (protocol) {
    case "connect_stream": {
      const end = endOfStream.serialize({ metadata: new Headers(), error });
      answerAndLinger(req, res, 200, { "content-type": contentType }, encodeEnvelope(endStreamFlag, end));
      return;
    }
    case "grpc_web": {
      const trailers = setTrailerStatus(new Headers({ "content-type": contentType }), error);
      answerAndLinger(req, res, 200, Object.fromEntries(trailers), "");
      return;
    }
    default: {
      const headers = { "content-type": "application/json", ...status.metadata };
      answerAndLinger(
        req,
        res,
        httpStatus ?? codeToHttpStatus(error.code),
        headers,
        errorToJsonBytes(error, undefined),
      );
    }
  }
}

/**
 * The error of Connect's handler for a message that it cannot read. The handler exposes it nowhere
 * but in its finished response.
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

/** The error of this service for a message that Connect cannot read. */
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
