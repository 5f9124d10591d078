import type { IncomingMessage, ServerResponse } from "node:http";
import { exposedHeaders } from "../../contract/headers.js";

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

/** How long a browser may remember a preflight. */
const maxAgeSeconds = "600";
const allowedMethods = "GET, POST, DELETE, OPTIONS";

/**
 * Cross-origin requests of browsers (CORS-1 to CORS-5). The headers are added to every answer, errors and streams
 * included: without them a browser hides even the status.
 */
interface Cors {
  /** The headers of an answer, names and values in turn. */
  marks(req: IncomingMessage): readonly string[];
  /** The headers of the answer to a preflight; null when the request is not one. */
  preflight(req: IncomingMessage): readonly string[] | null;
}

/** `origins` as browsers send them, or `*`; empty: CORS is off. */
export function createCors(origins: readonly string[]): Cors {
  const allowsAll = origins.includes("*");
  const exposed = exposedHeaders.join(", ");
  // A cache must not serve one origin's answer to another.
  const vary = allowsAll ? [] : ["vary", "Origin"];

  function allowedOrigin(req: IncomingMessage): string | undefined {
    const { origin } = req.headers;
    if (allowsAll) return "*";
    return origin !== undefined && origins.includes(origin) ? origin : undefined;
  }

  function allowing(origin: string | undefined): readonly string[] {
    if (origin === undefined) return [];
    return ["access-control-allow-origin", origin, "access-control-expose-headers", exposed];
  }

  return {
    marks(req) {
      return origins.length === 0 ? [] : [...vary, ...allowing(allowedOrigin(req))];
    },

    preflight(req) {
      if (origins.length === 0 || req.method !== "OPTIONS") return null;
      const origin = allowedOrigin(req);
      const headers = ["vary", "Origin, Access-Control-Request-Headers", ...allowing(origin)];
      if (origin === undefined) return headers;
      headers.push("access-control-allow-methods", allowedMethods, "access-control-max-age", maxAgeSeconds);
      // Echoed: new releases of SDKs send headers that a fixed list would miss (CORS-2).
      const requested = req.headers["access-control-request-headers"];
      if (requested !== undefined) headers.push("access-control-allow-headers", requested);
      return headers;
    },
  };
}
