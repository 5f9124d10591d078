import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import type { Logger } from "../../domain/call/ports.js";
import { isSameDigest } from "../../lib/crypto.js";
import { Secret } from "../../lib/secret.js";

interface OpsListenerDeps {
  readonly ready: () => Promise<{ readonly ready: boolean; readonly detail: object }>;
  readonly debugState: () => Promise<object>;
  readonly metrics: { readonly contentType: string; render(): Promise<string> };
  /** Bearer token for all pages except health and readiness; null: no token is required. */
  readonly token: Secret | null;
  readonly log: Logger;
}

export type OpsListener = ReturnType<typeof createOpsListener>;

interface Page {
  readonly status: number;
  /** An object is written as JSON. */
  readonly body: object | string;
  /** Default: JSON. */
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Endpoint {
  /** Whether the page needs no token. */
  readonly isOpen: boolean;
  /** `isTrusted`: no token is configured, or the request has it. */
  readonly page: (isTrusted: boolean) => Promise<Page>;
}

const notFound: Page = {
  status: 404,
  body: { error: "No such path. Try /health, /ready, /metrics or /debug/state." },
};
const wrongHost: Page = {
  status: 403,
  body: { error: "Use an IP address or localhost. Other host names are accepted if server.ops_token_file is set." },
};
const wrongMethod: Page = { status: 405, body: { error: "Only GET and HEAD." }, headers: { allow: "GET, HEAD" } };
const noToken: Page = {
  status: 401,
  body: { error: "This page requires the token in server.ops_token_file: Authorization: Bearer TOKEN." },
  headers: { "www-authenticate": 'Bearer realm="operations"' },
};

/**
 * The listener for operators: `/health`, `/ready` with detail, `/metrics` and `/debug/state`. If a token is configured,
 * `/health` does not require it, `/ready` shows only its status to requests without it, and all other pages require it.
 */
export function createOpsListener({ ready, debugState, metrics, token, log }: OpsListenerDeps) {
  let required = token;
  const health: Endpoint = { isOpen: true, page: async () => ({ status: 200, body: { status: "ok" } }) };
  const readiness: Endpoint = {
    isOpen: true,
    async page(isTrusted) {
      const { ready: isReady, detail } = await ready();
      const brief = { status: isReady ? "ready" : "not_ready" };
      return { status: isReady ? 200 : 503, body: isTrusted ? detail : brief };
    },
  };
  const metricsPage = async (): Promise<Page> => ({
    status: 200,
    body: await metrics.render(),
    contentType: metrics.contentType,
  });
  const endpoints = new Map<string, Endpoint>([
    ["/health", health],
    ["/healthz", health],
    ["/livez", health],
    ["/ready", readiness],
    ["/readyz", readiness],
    ["/metrics", { isOpen: false, page: metricsPage }],
    ["/debug/state", { isOpen: false, page: async () => ({ status: 200, body: await debugState() }) }],
  ]);

  async function pageOf({ method, url, headers }: IncomingMessage): Promise<Page> {
    const endpoint = endpoints.get((url ?? "").split("?", 1)[0] ?? "");
    if (endpoint === undefined) return notFound;
    if (required === null && !isSafeHost(headers.host ?? "")) return wrongHost;
    const isTrusted = required === null || hasToken(headers.authorization, required);
    if (!isTrusted && !endpoint.isOpen) return noToken;
    return method === "GET" || method === "HEAD" ? endpoint.page(isTrusted) : wrongMethod;
  }

  const server = createServer({ requestTimeout: 10_000 }, (req, res) => {
    req.resume();
    pageOf(req)
      .catch((cause: unknown): Page => {
        log.error({ err: cause, path: req.url }, "an operations page failed");
        return { status: 500, body: { error: "The page failed; the log has the cause." } };
      })
      .then((page) => answer(res, page, req.method === "HEAD"))
      .catch((cause: unknown) => log.error({ err: cause, path: req.url }, "an operations answer was not sent"));
  });

  return {
    /** Replaces the token; requests that are being answered are not affected. */
    setToken(next: Secret | null): void {
      required = next;
    },

    /** Resolves with the port; rejects when it cannot be bound. Port 0 picks a free one. */
    listen(host: string, port: number): Promise<number> {
      return new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, () => {
          server.off("error", reject);
          resolve((server.address() as AddressInfo).port);
        });
      });
    },

    close(): Promise<void> {
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

/** Compares digests, so that the duration depends neither on the token nor on its length. */
function hasToken(authorization: string | undefined, token: Secret): boolean {
  const [, credential = ""] = /^Bearer +(\S+)$/i.exec(authorization ?? "") ?? [];
  return isSameDigest(new Secret(credential).digest, token.digest);
}

/**
 * Protects pages without a token against DNS rebinding: the owner of a web page can make its host name resolve to this
 * machine, but requests of the page then have that name in their Host header.
 */
function isSafeHost(host: string): boolean {
  const name = host.replace(/:\d+$/, "");
  return isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0 || name.toLowerCase() === "localhost";
}

function answer(res: ServerResponse, { status, body, contentType, headers }: Page, headOnly: boolean): void {
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  res.writeHead(status, {
    "content-type": contentType ?? "application/json",
    "content-length": bytes.length,
    "cache-control": "no-store",
    ...headers,
  });
  res.end(headOnly ? undefined : bytes);
}
