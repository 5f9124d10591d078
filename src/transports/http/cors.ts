import type { IncomingMessage } from "node:http";
import { exposedHeaders } from "../../contract/headers.js";

/** How long a browser may remember a preflight. */
const maxAgeSeconds = "600";
const allowedMethods = "GET, POST, DELETE, OPTIONS";

/**
 * Lets browsers of other origins in (CORS-1 to CORS-5). Its headers are on every answer, errors and streams included:
 * otherwise a browser hides the status, too.
 */
export interface Cors {
  /** The headers of an answer, names and values in turn. */
  marks(req: IncomingMessage): readonly string[];
  /** The headers of a preflight instead; null when the request is none. */
  preflight(req: IncomingMessage): readonly string[] | null;
}

/** `origins` as browsers send them, or `*`; empty: CORS is off. */
export function createCors(origins: readonly string[]): Cors {
  const allowsAll = origins.includes("*");
  const exposed = exposedHeaders.join(", ");
  // A cache must not give one origin's answer to another.
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
      // Echoed: each release of an SDK brings headers that a fixed list would not have (CORS-2).
      const requested = req.headers["access-control-request-headers"];
      if (requested !== undefined) headers.push("access-control-allow-headers", requested);
      return headers;
    },
  };
}
