import type { IncomingMessage, ServerResponse } from "node:http";
import { exposedHeaders } from "../../contract/headers.js";
import type { ServiceError } from "../../domain/call/service-error.js";

/** Serves a request. `rest` is the part of the path that matches the `*` of the route's path; empty without a `*`. */
export type RouteHandler = (req: IncomingMessage, res: ServerResponse, rest: string) => void;

/** A path and its handler. One `*` in the path matches any text, slashes included. */
export interface Route {
  readonly path: string;
  /** The route serves only requests with this header; other requests are served by the same path's route without it. */
  readonly header?: string | null;
  readonly handle: RouteHandler;
  /** Answers an error that the listener found in a request's head. Absent: the listener answers in its own form. */
  readonly refuse?: (req: IncomingMessage, res: ServerResponse, error: ServiceError) => void;
}

/** The routes of one path. */
interface PathRoutes {
  readonly plain: Route;
  /** Route for requests with its header. */
  withHeader: Route | null;
}

/** A path with a `*`, split into the texts before and after the `*`. */
interface Pattern extends PathRoutes {
  readonly prefix: string;
  readonly suffix: string;
}

/**
 * The route table of the HTTP listener. Every path belongs to one transport, or to two transports that are distinguished by
 * a header; no transport is the fallback of another. Paths are compared byte for byte, without decoding. If several patterns
 * match, the one with the longest suffix applies.
 */
export class RouteTable {
  readonly #exact = new Map<string, PathRoutes>();
  readonly #patterns: readonly Pattern[];
  readonly #unknown: RouteHandler;

  /** `unknown` answers every path without a route. Throws when two routes have the same path and header. */
  constructor(routes: Iterable<Route>, unknown: RouteHandler) {
    this.#unknown = unknown;
    const patterns = new Map<string, Pattern>();
    const [plain, conditional] = [[], []] as [Route[], Route[]];
    for (const route of routes) (route.header ? conditional : plain).push(route);
    for (const route of plain) {
      const { path } = route;
      if (this.#exact.has(path) || patterns.has(path)) throw new Error(`two routes have the path ${path}`);
      const [prefix = "", suffix] = path.split("*");
      if (suffix === undefined) this.#exact.set(path, { plain: route, withHeader: null });
      else patterns.set(path, { plain: route, withHeader: null, prefix, suffix });
    }
    for (const route of conditional) {
      const { path, header } = route;
      const ofPath = this.#exact.get(path) ?? patterns.get(path);
      if (ofPath === undefined) throw new Error(`${path} has no route without the header ${header}`);
      if (ofPath.withHeader !== null) throw new Error(`two routes with a header have the path ${path}`);
      ofPath.withHeader = route;
    }
    this.#patterns = [...patterns.values()].sort((a, b) => b.suffix.length - a.suffix.length);
  }

  has(path: string): boolean {
    return this.#exact.has(path) || this.#patterns.some((pattern) => starOf(pattern, path) !== null);
  }

  /** The route of a request; undefined if its path has none. */
  routeOf(req: IncomingMessage): Route | undefined {
    const path = pathOf(req);
    const found = this.#exact.get(path) ?? this.#patterns.find((pattern) => starOf(pattern, path) !== null);
    return found && chosen(found, req);
  }

  readonly serve = (req: IncomingMessage, res: ServerResponse): void => {
    const path = pathOf(req);
    const exact = this.#exact.get(path);
    if (exact !== undefined) {
      chosen(exact, req).handle(req, res, "");
      return;
    }
    for (const pattern of this.#patterns) {
      const star = starOf(pattern, path);
      if (star !== null) {
        chosen(pattern, req).handle(req, res, star);
        return;
      }
    }
    this.#unknown(req, res, "");
  };
}

function chosen({ plain, withHeader }: PathRoutes, req: IncomingMessage): Route {
  return withHeader?.header && req.headers[withHeader.header] !== undefined ? withHeader : plain;
}

/** The part of a path that matches the `*` of a pattern; null: the path does not match. */
function starOf({ prefix, suffix }: Pattern, path: string): string | null {
  const end = path.length - suffix.length;
  return end >= prefix.length && path.startsWith(prefix) && path.endsWith(suffix)
    ? path.slice(prefix.length, end)
    : null;
}

/** The path of a request's target as it was received, without the query. */
export function pathOf({ url = "/" }: IncomingMessage): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

/** The query of a request's target. */
export function queryOf(url: string): URLSearchParams {
  const at = url.indexOf("?");
  return new URLSearchParams(at === -1 ? "" : url.slice(at + 1));
}

/** How long a browser may cache a preflight. */
const maxAgeSeconds = "600";
const allowedMethods = "GET, POST, DELETE, OPTIONS";

/**
 * The headers for cross-origin requests of browsers (CORS-1 to CORS-5). `origins`: values of the Origin header, or `*`;
 * empty: CORS is off. They are added to every answer, also to errors and streams: without them a browser hides the status.
 */
export function createCors(origins: readonly string[]) {
  const allowsAll = origins.includes("*");
  const exposed = exposedHeaders.join(", ");
  // A cache must not serve one origin's answer to another.
  const vary = allowsAll ? [] : ["vary", "Origin"];

  function allowedOrigin({ headers: { origin } }: IncomingMessage): string | undefined {
    if (allowsAll) return "*";
    return origin !== undefined && origins.includes(origin) ? origin : undefined;
  }

  function allowing(origin: string | undefined): readonly string[] {
    if (origin === undefined) return [];
    return ["access-control-allow-origin", origin, "access-control-expose-headers", exposed];
  }

  return {
    /** The headers of an answer, names and values in turn. */
    headersOf(req: IncomingMessage): readonly string[] {
      return origins.length === 0 ? [] : [...vary, ...allowing(allowedOrigin(req))];
    },

    /** The headers of the answer to a preflight; null when the request is not one. */
    preflight(req: IncomingMessage): readonly string[] | null {
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
