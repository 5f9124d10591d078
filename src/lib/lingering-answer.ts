import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";

/** What is thrown away of a body that nobody wants, before the connection is closed under a client that still sends. */
export const lingerLimits = { ms: 1_000, bytes: 32 * 1024 * 1024 } as const;

/** Whether the client has announced a body that has not arrived in full. */
function isBodyPending(req: IncomingMessage): boolean {
  // A request without a body is not `complete` yet while its own listener runs.
  return !req.complete && (req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"]) > 0);
}

/**
 * Answers a request whose body may still be coming in. Clients that send everything before they read would see a
 * broken pipe instead of the answer if the connection were closed at once: so the answer is complete by its
 * content-length, the body is discarded within lingerLimits, and only then the connection is closed.
 */
export function answerAndLinger(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders | OutgoingHttpHeader[],
  body: string | Uint8Array,
): void {
  if (res.destroyed || res.headersSent) return;
  const pending = isBodyPending(req);
  const content = req.method === "HEAD" ? "" : body;
  if (pending) res.shouldKeepAlive = false;
  const length = Buffer.byteLength(body);
  res.writeHead(
    status,
    Array.isArray(headers) ? [...headers, "content-length", length] : { ...headers, "content-length": length },
  );
  // Who was not told to continue does not send.
  const sending = pending && req.headers.expect === undefined;
  if (!sending) {
    res.end(content);
    return;
  }
  if (content.length > 0) res.write(content);
  else res.flushHeaders();
  discard(req, () => res.end());
}

function discard(req: IncomingMessage, done: () => void): void {
  let bytes = 0;
  const finish = (): void => {
    clearTimeout(timer);
    req.off("data", count).off("close", finish).off("end", finish);
    done();
  };
  const timer = setTimeout(finish, lingerLimits.ms).unref();
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > lingerLimits.bytes) finish();
  };
  req.on("data", count).once("close", finish).once("end", finish).resume();
}
