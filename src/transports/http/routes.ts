import type { IncomingMessage, ServerResponse } from "node:http";

/** Serves a request. `rest` is what follows the prefix of a route that ends in `*`, else empty. */
export type RouteHandler = (req: IncomingMessage, res: ServerResponse, rest: string) => void;

/** A path, or with `*` at its end all paths that begin with what stands before it, and its handler. */
export interface Route {
  readonly path: string;
  readonly handle: RouteHandler;
}

/**
 * The route table of the HTTP listener. Every path belongs to one transport; no transport is the fallback of another.
 * Paths are compared as they came, byte for byte.
 */
export class RouteTable {
  readonly #exact = new Map<string, RouteHandler>();
  readonly #prefixes: { readonly prefix: string; readonly handle: RouteHandler }[] = [];
  readonly #unknown: RouteHandler;

  /** `unknown` answers every path without a route. Throws when two routes have the same path. */
  constructor(routes: Iterable<Route>, unknown: RouteHandler) {
    this.#unknown = unknown;
    for (const route of routes) this.#add(route);
  }

  has(path: string): boolean {
    return this.#exact.has(path) || this.#prefixes.some(({ prefix }) => path.startsWith(prefix));
  }

  readonly serve = (req: IncomingMessage, res: ServerResponse): void => {
    const path = pathOf(req);
    const exact = this.#exact.get(path);
    if (exact !== undefined) {
      exact(req, res, "");
      return;
    }
    for (const { prefix, handle } of this.#prefixes) {
      if (path.startsWith(prefix)) {
        handle(req, res, path.slice(prefix.length));
        return;
      }
    }
    this.#unknown(req, res, "");
  };

  #add({ path, handle }: Route): void {
    const isPrefix = path.endsWith("*");
    const prefix = path.slice(0, -1);
    const isTaken = isPrefix ? this.#prefixes.some((other) => other.prefix === prefix) : this.#exact.has(path);
    if (isTaken) throw new Error(`two routes have the path ${path}`);
    if (isPrefix) this.#prefixes.push({ prefix, handle });
    else this.#exact.set(path, handle);
  }
}

/** The path of a request's target as it came, without the query. */
export function pathOf({ url = "/" }: IncomingMessage): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
