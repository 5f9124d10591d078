import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "../../domain/call/ports.js";

interface OpsListenerDeps {
  readonly ready: () => Promise<{ readonly ready: boolean; readonly detail: object }>;
  readonly debugState: () => Promise<object>;
  readonly metrics: { readonly contentType: string; render(): Promise<string> };
  readonly log: Logger;
}

export type OpsListener = ReturnType<typeof createOpsListener>;

interface Page {
  readonly status: number;
  /** An object is written as JSON. */
  readonly body: object | string;
  /** Default: JSON. */
  readonly contentType?: string;
}

/** Protects against DNS rebinding: a web page must not read these pages through a host name of its own. */
const localHost = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i;

const notFound: Page = {
  status: 404,
  body: { error: "No such path. Try /health, /ready, /metrics or /debug/state." },
};
const wrongHost: Page = { status: 403, body: { error: "Only for this machine: use 127.0.0.1 or localhost." } };
const wrongMethod: Page = { status: 405, body: { error: "Only GET and HEAD." } };

/**
 * The listener for operators: `/health`, `/ready` with detail, `/metrics` and `/debug/state`. It requires no credential and
 * is bound to loopback.
 */
export function createOpsListener({ ready, debugState, metrics, log }: OpsListenerDeps) {
  const health = async (): Promise<Page> => ({ status: 200, body: { status: "ok" } });
  const readiness = async (): Promise<Page> => {
    const { ready: isReady, detail } = await ready();
    return { status: isReady ? 200 : 503, body: detail };
  };
  const pages = new Map<string, () => Promise<Page>>([
    ["/health", health],
    ["/healthz", health],
    ["/livez", health],
    ["/ready", readiness],
    ["/readyz", readiness],
    ["/metrics", async () => ({ status: 200, body: await metrics.render(), contentType: metrics.contentType })],
    ["/debug/state", async () => ({ status: 200, body: await debugState() })],
  ]);

  async function pageOf({ method, url, headers }: IncomingMessage): Promise<Page> {
    const page = pages.get((url ?? "").split("?", 1)[0] ?? "");
    if (page === undefined) return notFound;
    if (!localHost.test(headers.host ?? "")) return wrongHost;
    return method === "GET" || method === "HEAD" ? page() : wrongMethod;
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

function answer(res: ServerResponse, { status, body, contentType }: Page, headOnly: boolean): void {
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  res.writeHead(status, {
    "content-type": contentType ?? "application/json",
    "content-length": bytes.length,
    "cache-control": "no-store",
    ...(status === 405 ? { allow: "GET, HEAD" } : {}),
  });
  res.end(headOnly ? undefined : bytes);
}
