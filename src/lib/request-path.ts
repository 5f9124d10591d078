import type { IncomingMessage } from "node:http";

/** The path of a request's target as it came, without the query. */
export function pathOf({ url = "/" }: IncomingMessage): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
