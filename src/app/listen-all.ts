import { isIPv6 } from "node:net";
import type { Listening } from "../domain/service/service-status.js";
import type { Parts } from "./compose.js";
import type { Config } from "./config/schema.js";
import { StartError } from "./start-error.js";

/** The addresses of the listeners for a client on this machine. */
export interface ListenAddresses {
  /** `http://127.0.0.1:8080` */
  readonly http: string;
  /** `127.0.0.1:50051` */
  readonly grpc: string;
  /** `http://127.0.0.1:9464` */
  readonly ops: string;
}

/** The operations pages are internal and ask for no credential, so they are bound to loopback. */
const opsHost = "127.0.0.1";

/** Starts all listeners. Rejects with StartError when one cannot bind its port. */
export async function listenAll(
  { http, grpc, ops }: Pick<Parts, "http" | "grpc" | "ops">,
  server: Config["server"],
): Promise<{ readonly addresses: ListenAddresses; readonly listening: Listening }> {
  const opsPort = await listening(ops.listen(opsHost, server.ops_port), opsHost, server.ops_port, "ops");
  const grpcPort = await listening(grpc.listen(server.host, server.grpc_port), server.host, server.grpc_port, "grpc");
  const httpPort = await listening(http.listen(server.host, server.port), server.host, server.port, "http");
  const host = reachableHost(server.host);
  const tls = server.tls.cert_file !== null;
  return {
    addresses: {
      http: `${tls ? "https" : "http"}://${host}:${httpPort}`,
      grpc: `${host}:${grpcPort}`,
      ops: `http://${opsHost}:${opsPort}`,
    },
    listening: { host: server.host, httpPort, grpcPort, tls },
  };
}

/** The settings of the ports, for error messages. */
const portNames = {
  http: "--port (PORT, server.port)",
  grpc: "--grpc-port (UIS_GRPC_PORT, server.grpc_port)",
  ops: "--ops-port (UIS_OPS_PORT, server.ops_port)",
} as const;

async function listening(
  started: Promise<number>,
  host: string,
  port: number,
  listener: keyof typeof portNames,
): Promise<number> {
  try {
    return await started;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(
      `port ${port} on ${host} cannot be used: ${whyNot(reason)}`,
      /EADDRNOTAVAIL|ENOTFOUND/.test(reason)
        ? "choose an address of this machine with --host (HOST, server.host)"
        : `stop what uses it, or choose another with ${portNames[listener]}`,
      { cause },
    );
  }
}

/** grpc-js wraps the system's error in a sentence, so the code is searched in the text. */
function whyNot(reason: string): string {
  if (reason.includes("EADDRINUSE")) return "it is already in use";
  if (reason.includes("EACCES")) return "this user may not listen on it";
  if (reason.includes("EADDRNOTAVAIL") || reason.includes("ENOTFOUND")) return "this machine has no such address";
  return reason;
}

/** The host to connect to: a wildcard address cannot be called, loopback can. */
export function reachableHost(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  if (bare === "::") return "[::1]";
  return isIPv6(bare) ? `[${bare}]` : host;
}
