import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { ServiceError } from "../../domain/call/service-error.js";
import { lingerLimits } from "../../lib/lingering-answer.js";
import { errorResponse } from "./error-response.js";

/** What the HTTP parser or the server's timers found, as an error of ours. */
export function errorOfParser(code: string | undefined): ServiceError {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new ServiceError("request_headers_too_large", "The request's headers are too large.");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new ServiceError("request_timeout", "The request arrived too slowly.");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new ServiceError("request_too_large", "The chunk extensions of the body are too large.");
    default:
      return new ServiceError("invalid_value", "The request is not valid HTTP/1.1.");
  }
}

/**
 * Answers where there is no request object, because the head never became whole, and closes the connection. What still
 * comes in is thrown away for a moment: closing at once would reset the connection under the answer.
 */
export function answerRaw(socket: Duplex, error: ServiceError, extraHeaders: Readonly<Record<string, string>>): void {
  const { status, headers, body } = errorResponse(error);
  const lines = Object.entries({
    ...extraHeaders,
    ...headers,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n${body}`);
  const timer = setTimeout(() => socket.destroy(), lingerLimits.ms).unref();
  socket.once("close", () => clearTimeout(timer)).resume();
}
