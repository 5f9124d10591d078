import type { IncomingMessage } from "node:http";
import { exposedHeaders } from "../../contract/headers.js";

/** How long a browser may remember a preflight. */
const maxAgeSeconds = "600";
const allowedMethods = "GET, POST, DELETE, OPTIONS";

/**
 * Cross-origin requests of browsers (CORS-1 to CORS-5). The headers are added to every answer, errors and streams
 * included: without them a browser hides even the status.
 */
export interface Cors {
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
