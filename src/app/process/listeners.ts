import { createPrivateKey, X509Certificate } from "node:crypto";
import { unwatchFile, watchFile } from "node:fs";
import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import type { Listening } from "../../domain/service/service-status.js";
import { errorText } from "../../lib/display-text.js";
import type { TlsFiles } from "../../lib/network.js";
import { Secret } from "../../lib/secret.js";
import type { Config } from "../config/schema.js";
import { StartError } from "./lifecycle.js";

/** The addresses of the listeners for a client on this machine. */
export interface ListenAddresses {
  /** `http://127.0.0.1:8080` */
  readonly http: string;
  /** `127.0.0.1:50051` */
  readonly grpc: string;
  /** `http://127.0.0.1:9464` */
  readonly ops: string;
}

interface Listener {
  /** Resolves with the port. */
  listen(host: string, port: number): Promise<number>;
}

/** Starts the listener for operators; resolves with its address. Rejects with StartError when it cannot bind its port. */
export async function listenOps(ops: Listener, { ops_host: host, ops_port: port }: Config["server"]): Promise<string> {
  return `http://${reachableHost(host)}:${await listening(ops.listen(host, port), host, port, "ops")}`;
}

/** Starts all listeners; `ops` is the address of one in another process. Rejects with StartError when one cannot bind its port. */
export async function listenAll(
  { http, grpc, ops }: { readonly http: Listener; readonly grpc: Listener; readonly ops: Listener | string },
  server: Config["server"],
): Promise<{ readonly addresses: ListenAddresses; readonly listening: Listening }> {
  const opsAddress = typeof ops === "string" ? ops : await listenOps(ops, server);
  const grpcPort = await listening(grpc.listen(server.host, server.grpc_port), server.host, server.grpc_port, "grpc");
  const httpPort = await listening(http.listen(server.host, server.port), server.host, server.port, "http");
  const host = reachableHost(server.host);
  const tls = server.tls.cert_file !== null;
  return {
    addresses: {
      http: `${tls ? "https" : "http"}://${host}:${httpPort}`,
      grpc: `${host}:${grpcPort}`,
      ops: opsAddress,
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

/** The settings of the addresses. */
const hostNames = {
  http: "--host (HOST, server.host)",
  grpc: "--host (HOST, server.host)",
  ops: "UIS_OPS_HOST (server.ops_host)",
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
    // grpc-js wraps the system's error in a sentence, so its code is searched in the text.
    const text = errorText(cause);
    const isForeignHost = /EADDRNOTAVAIL|ENOTFOUND/.test(text);
    const reasons = { EADDRINUSE: "it is already in use", EACCES: "this user may not listen on it" };
    const known = Object.entries(reasons).find(([code]) => text.includes(code))?.[1];
    const reason = isForeignHost ? "this machine has no such address" : (known ?? text);
    const fix = isForeignHost
      ? `choose an address of this machine with ${hostNames[listener]}`
      : `stop the program that uses it, or choose another with ${portNames[listener]}`;
    throw new StartError(`port ${port} on ${host} cannot be used: ${reason}`, fix, { cause });
  }
}

/** The host for a client on this machine: loopback instead of a wildcard address. */
export function reachableHost(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  if (bare === "::") return "[::1]";
  return isIPv6(bare) ? `[${bare}]` : host;
}

export type TlsSettings = Config["server"]["tls"];

/** Interval of the checks for changed files: a renewed certificate is used within this time. */
const checkEveryMs = 2_000;

/** Reads and checks the TLS files; null if TLS is off. Rejects with a StartError that names the unusable file. */
export async function loadTls(settings: TlsSettings): Promise<TlsFiles | null> {
  const { cert_file: certFile, key_file: keyFile, client_ca_file: caFile } = settings;
  if (certFile === null || keyFile === null) return null;
  const cert = await readPem(certFile, (pem) => new X509Certificate(pem));
  const key = await readPem(keyFile, (pem) => createPrivateKey(pem));
  const clientCa = caFile === null ? null : await readPem(caFile, (pem) => new X509Certificate(pem));
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    throw new StartError(`${keyFile} is not the key of ${certFile}`, "set server.tls.cert_file and key_file to a pair");
  }
  return { cert: cert.pem, key: key.pem, clientCa: clientCa?.pem ?? null };
}

async function readPem<T>(file: string, parse: (pem: Buffer) => T): Promise<{ pem: Buffer; parsed: T }> {
  try {
    const pem = await readFile(file);
    return { pem, parsed: parse(pem) };
  } catch (cause) {
    throw new StartError(`the TLS file ${file} cannot be used: ${errorText(cause)}`, "check server.tls", { cause });
  }
}

const opsTokenForm = /^[\x21-\x7e]{16,256}$/;

/** The token in `server.ops_token_file`, without one line break at its end; null if none is set. Rejects with a StartError. */
export async function loadOpsToken({ ops_token_file: file }: Pick<Config["server"], "ops_token_file">) {
  if (file === null) return null;
  const fix = "write 16 to 256 printable characters without spaces into it: openssl rand -hex 32";
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    throw new StartError(`server.ops_token_file cannot be read: ${errorText(cause)}`, fix, { cause });
  });
  const token = text.replace(/\r?\n$/, "");
  if (!opsTokenForm.test(token)) throw new StartError(`server.ops_token_file: ${file} has no usable token`, fix);
  return new Secret(token);
}

/** Calls `changed` when the date or size of a file changes, until the returned function is called. */
export function watchTlsFiles(settings: TlsSettings, changed: () => void): () => void {
  const files = [settings.cert_file, settings.key_file, settings.client_ca_file].filter((file) => file !== null);
  const listener = (now: { mtimeMs: number; size: number }, before: { mtimeMs: number; size: number }) => {
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) changed();
  };
  for (const file of files) watchFile(file, { interval: checkEveryMs, persistent: false }, listener);
  return () => {
    for (const file of files) unwatchFile(file, listener);
  };
}
