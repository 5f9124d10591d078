import type { ServerResponse } from "node:http";

/**
 * Ends a response whose head was written with its whole body. `end(body)` alone would make Node gather the answer and an
 * empty write after it into a vector, which costs more than sending the answer does; so the body is written, with its
 * head before it, as one piece of text while the socket is corked by us.
 */
export function endWhole(res: ServerResponse, body: string | Uint8Array, encoding: "latin1" | "utf8"): void {
  const { socket } = res;
  if (body.length > 0) {
    socket?.cork();
    res.write(body, encoding);
    socket?.uncork();
  }
  res.end();
}
