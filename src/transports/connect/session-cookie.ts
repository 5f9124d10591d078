/**
 * The cookie of a dashboard session (KEY-22). Where the browser speaks TLS, with this service or with a proxy in front, the
 * name has the prefix that makes browsers refuse it from any other host, from a plain connection and for a part of the
 * paths only.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import type { Browser } from "../../domain/call/call-context.js";

const userAgentCharsMax = 256;

const plainName = "uis_session";
const secureName = `__Host-${plainName}`;

/** What the browser sent, and how to set its cookie. */
export function browserOf(req: IncomingMessage, res: ServerResponse): Browser {
  const { cookie, origin, host } = req.headers;
  const isTls = req.socket instanceof TLSSocket;
  // Behind a proxy that terminates TLS the origin still says https: browsers send it with every call of the dashboard.
  const isSecure = isTls || origin?.toLowerCase() === `https://${host?.toLowerCase()}`;
  const name = isSecure ? secureName : plainName;
  return {
    // Requests from other origins behind such a proxy are recognised by their session, too, and rejected for the origin.
    sessionToken: cookieOf(cookie, name) ?? (isTls ? undefined : cookieOf(cookie, secureName)),
    isSameOrigin: isSameOrigin(req, isTls),
    userAgent: (req.headers["user-agent"] ?? "").slice(0, userAgentCharsMax),
    keepSession(token, forMs) {
      const seconds = token === null ? 0 : Math.floor(forMs / 1_000);
      const attributes = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
      res.setHeader("set-cookie", `${name}=${token ?? ""}; ${attributes}`);
      res.setHeader("cache-control", "no-store");
    },
  };
}

/** The value of a cookie; undefined without one, and for two of the name, as one of them may be planted. */
function cookieOf(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  const values = header
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return values.length === 1 ? values[0] : undefined;
}

/**
 * Checks `Sec-Fetch-Site`, where the browser sends it, and `Origin`. On a plain connection the origin may be https,
 * too: a proxy in front of this service may terminate TLS.
 */
function isSameOrigin({ headers }: IncomingMessage, isTls: boolean): boolean | undefined {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin") return false;
  if (origin === undefined) return undefined;
  const lower = origin.toLowerCase();
  const here = host?.toLowerCase() ?? "";
  return lower === `https://${here}` || (!isTls && lower === `http://${here}`);
}
