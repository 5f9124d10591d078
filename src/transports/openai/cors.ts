import type { IncomingMessage, ServerResponse } from "node:http";
import { exposedHeaders } from "../../contract/headers.js";

/** How long a browser may remember a preflight. */
const maxAgeSeconds = 600;
const allowedMethods = "GET, POST, DELETE, OPTIONS";

/**
 * Lets browsers of other origins in (CORS-1 to CORS-5). Set on every answer, errors and streams included: otherwise a
 * browser hides the status, too.
 */
export interface Cors {
  /** Sets the headers of an answer; they stay whoever writes it. */
  mark(req: IncomingMessage, res: ServerResponse): void;
  /** Sets the headers of a preflight besides; false when the request is none. */
  preflight(req: IncomingMessage, res: ServerResponse): boolean;
}

/** `origins` as browsers send them, or `*`; empty: CORS is off. */
export function createCors(origins: readonly string[]): Cors {
  const allowsAll = origins.includes("*");
  const exposed = exposedHeaders.join(", ");

  function allowedOrigin(req: IncomingMessage): string | undefined {
    const { origin } = req.headers;
    if (allowsAll) return "*";
    return origin !== undefined && origins.includes(origin) ? origin : undefined;
  }

  return {
    mark(req, res) {
      if (origins.length === 0) return;
      // A cache must not give one origin's answer to another.
      if (!allowsAll) res.setHeader("vary", "Origin");
      const origin = allowedOrigin(req);
      if (origin === undefined) return;
      res.setHeader("access-control-allow-origin", origin);
      res.setHeader("access-control-expose-headers", exposed);
    },

    preflight(req, res) {
      if (origins.length === 0 || req.method !== "OPTIONS") return false;
      res.setHeader("vary", "Origin, Access-Control-Request-Headers");
      if (allowedOrigin(req) === undefined) return true;
      res.setHeader("access-control-allow-methods", allowedMethods);
      res.setHeader("access-control-max-age", maxAgeSeconds);
      // Echoed: each release of an SDK brings headers that a fixed list would not have (CORS-2).
      const requested = req.headers["access-control-request-headers"];
      if (requested !== undefined) res.setHeader("access-control-allow-headers", requested);
      return true;
    },
  };
}
