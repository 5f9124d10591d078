import http2, { type ClientHttp2Stream, type IncomingHttpHeaders } from "node:http2";
import { status } from "@grpc/grpc-js";
import { metadataOf } from "./grpc-client.js";

/** The response on one HTTP/2 stream. Trailers-only answers have their status in `headers`. */
export interface RawAnswer {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly bytes: number;
  /** The error code with which the stream was closed. */
  readonly rstCode: number;
}

/** A length-prefixed gRPC message. */
export function grpcFrame(message: Uint8Array, compressed = false): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(compressed ? 1 : 0, 0);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** A gRPC client for behaviour that libraries do not allow: silence, invalid bytes, endless streams. */
export class RawGrpc {
  readonly session: http2.ClientHttp2Session;

  constructor(address: string) {
    // Node's client would reject an answer while more than 10 MB of its own request wait to be sent.
    this.session = http2.connect(`http://${address}`, { maxSessionMemory: 1_000 });
    this.session.on("error", () => {});
  }

  /** Sends the headers of a call; the caller sends the rest. */
  start(path: string, headers: Readonly<Record<string, string>> = {}): ClientHttp2Stream {
    const stream = this.session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc+proto",
      te: "trailers",
      ...headers,
    });
    stream.on("error", () => {});
    return stream;
  }

  /** Sends a call with these bytes as its body, and resolves with the answer. */
  call(path: string, body: Uint8Array, headers: Readonly<Record<string, string>> = {}): Promise<RawAnswer> {
    const stream = this.start(path, headers);
    const answer = answerOf(stream);
    stream.end(body);
    return answer;
  }

  close(): void {
    this.session.destroy();
  }
}

/** Resolves when the stream is closed. */
export function answerOf(stream: ClientHttp2Stream): Promise<RawAnswer> {
  let headers: IncomingHttpHeaders = {};
  let trailers: IncomingHttpHeaders = {};
  let bytes = 0;
  stream.on("response", (received) => {
    headers = received;
  });
  stream.on("trailers", (received) => {
    trailers = received;
  });
  stream.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  return new Promise((resolve) => {
    stream.once("close", () => resolve({ headers, trailers, bytes, rstCode: stream.rstCode }));
  });
}

/** The status of an answer in grpc-js' form, for errorFacts. */
export function statusOf({ headers, trailers }: RawAnswer) {
  const from = trailers["grpc-status"] === undefined ? headers : trailers;
  const metadata = metadataOf({});
  const details = from["grpc-status-details-bin"];
  if (typeof details === "string") metadata.set("grpc-status-details-bin", Buffer.from(details, "base64"));
  const requestId = from["x-request-id"];
  if (typeof requestId === "string") metadata.set("x-request-id", requestId);
  return {
    code: Number(from["grpc-status"] ?? status.UNKNOWN),
    details: decodeURIComponent(String(from["grpc-message"] ?? "")),
    metadata,
  };
}
