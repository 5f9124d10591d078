import {
  type IncomingMessage,
  ServerResponse as NodeResponse,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
} from "node:http";

/**
 * A response that carries certain headers whoever writes it. They join the head when it is written: `setHeader` would
 * send every answer through Node's slow way of merging two sets of headers.
 */
export class MarkedResponse<R extends IncomingMessage = IncomingMessage> extends NodeResponse<R> {
  /** Names and values in turn; none that a door sets itself: both lines would go out. */
  marks: readonly OutgoingHttpHeader[] = [];

  override writeHead(
    status: number,
    message?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
    headers?: OutgoingHttpHeaders | OutgoingHttpHeader[],
  ): this {
    if (typeof message === "string") return super.writeHead(status, message, marked(this.marks, headers));
    return super.writeHead(status, marked(this.marks, message ?? headers));
  }
}

/** Adds the marks to a list of headers, which is the response's own from then on. A function: a private method would add a field to every response. */
function marked(
  marks: readonly OutgoingHttpHeader[],
  headers: OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined,
): OutgoingHttpHeader[] {
  if (headers === undefined) return [...marks];
  const all = Array.isArray(headers) ? headers : listOf(headers);
  for (const mark of marks) all.push(mark);
  return all;
}

function listOf(headers: OutgoingHttpHeaders): OutgoingHttpHeader[] {
  const list: OutgoingHttpHeader[] = [];
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) list.push(name, value);
  return list;
}
