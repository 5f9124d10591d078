import http, { type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http";
import { codeFromString } from "@connectrpc/connect/protocol-connect";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Starts a request and sends its headers; the caller writes and ends the body. `localAddress` is the client's address. */
export function startRequest(url: string, headers: OutgoingHttpHeaders, method = "POST", localAddress?: string) {
  const req = http.request(url, { method, headers, agent: false, localAddress });
  req.flushHeaders();
  const answer = new Promise<HttpAnswer>((resolve, reject) => {
    req.once("error", reject);
    req.once("response", (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.once("error", reject);
      res.once("end", () =>
        resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) }),
      );
    });
  });
  answer.catch(() => {});
  return { req, answer };
}

/** Sends a request with its whole body, and resolves with the answer. */
export function request(
  url: string,
  headers: OutgoingHttpHeaders,
  body: string | Uint8Array = "",
  method = "POST",
  localAddress?: string,
): Promise<HttpAnswer> {
  const sent = { "content-length": Buffer.byteLength(body), ...headers };
  const { req, answer } = startRequest(url, sent, method, localAddress);
  req.end(body);
  return answer;
}

/** The error of a Connect answer: a unary answer has it in its body, a stream in its end-of-stream message. */
export function connectErrorOf({ headers, body }: HttpAnswer): ConnectErrorFacts {
  const isStream = String(headers["content-type"]).startsWith("application/connect+");
  const json = JSON.parse((isStream ? lastEnvelope(body) : body).toString()) as ConnectJson;
  const error = isStream ? json.error : json;
  const info = error?.details?.find(({ type }) => type === "google.rpc.ErrorInfo");
  return { code: codeFromString(error?.code ?? ""), message: error?.message, reason: info?.debug?.reason };
}

export interface ConnectErrorFacts {
  readonly code: number | undefined;
  readonly message: string | undefined;
  readonly reason: string | undefined;
}

interface ConnectJson {
  readonly code?: string;
  readonly message?: string;
  readonly details?: readonly { readonly type: string; readonly debug?: { readonly reason?: string } }[];
  readonly error?: ConnectJson;
}

/** A message in the envelope of Connect streams and gRPC-Web. */
export function envelope(message: Uint8Array, flags = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flags, 0);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

function lastEnvelope(body: Buffer): Buffer {
  let at = 0;
  let last = body.subarray(0, 0);
  while (at < body.length) {
    const length = body.readUInt32BE(at + 1);
    last = body.subarray(at + 5, at + 5 + length);
    at += 5 + length;
  }
  return last;
}
