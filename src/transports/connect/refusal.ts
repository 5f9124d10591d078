import type { IncomingMessage, ServerResponse } from "node:http";
import { encodeEnvelope } from "@connectrpc/connect/protocol";
import {
  codeToHttpStatus,
  createEndStreamSerialization,
  endStreamFlag,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc-web";
import { type StatusParts, toConnectError } from "../../lib/connect-error.js";
import { answerAndLinger } from "../http/answer.js";
import type { RpcProtocol } from "./rpc-protocol.js";

const endOfStream = createEndStreamSerialization(undefined);

/**
 * Answers with an error instead of the protocol's handler, in the form that the protocol's clients read: a status and
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
