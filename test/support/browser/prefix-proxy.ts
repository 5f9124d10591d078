import { request as forward } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { ServerIdentity } from "../receivers/authority.js";

export interface PrefixProxy {
  /** `https://127.0.0.1:<port>/some/path` */
  readonly at: string;
  close(): void;
}

/** A TLS proxy that serves the service below a path prefix. */
export async function startPrefixProxy(
  target: string,
  prefix: string,
  certificate: ServerIdentity,
): Promise<PrefixProxy> {
  const server = createServer(certificate, (req, res) => {
    const { url = "/", method, headers } = req;
    if (!url.startsWith(`${prefix}/`)) {
      res.writeHead(404).end();
      return;
    }
    const passed = forward(new URL(url.slice(prefix.length), target), { method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    passed.once("error", () => res.destroy());
    // A client that disconnects from the proxy disconnects from the service, too.
    res.once("close", () => passed.destroy());
    req.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    at: `https://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
