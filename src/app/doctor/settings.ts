import { X509Certificate } from "node:crypto";
import { access, constants, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname } from "node:path";
import type { Config } from "../config/schema.js";
import { isOpenToOthers } from "../data-dir.js";
import { loadTls } from "../tls-loader.js";
import { type Check, fail, ok, warn } from "./check.js";

const dayMs = 86_400_000;
const renewBeforeMs = 21 * dayMs;
const probeTimeoutMs = 1_000;

/** `path` absolute. */
export async function dataFolderCheck(path: string): Promise<Check> {
  const choose = "choose a folder of your own with --data-dir (UIS_DATA_DIR)";
  try {
    const exists = await stat(path).then(
      (found) => found.isDirectory() || null,
      () => false,
    );
    if (exists === null) return fail("data_dir", `${path} is not a folder`, choose);
    await access(exists ? path : await nearestFolder(path), constants.W_OK | constants.X_OK);
    if (await isOpenToOthers(path)) {
      return warn("data_dir", `${path} is open to other users of this machine`, `chmod 700 ${path}`);
    }
    return ok("data_dir", exists ? path : `${path} will be made`);
  } catch (error) {
    return fail("data_dir", `${path}: ${error instanceof Error ? error.message : String(error)}`, choose);
  }
}

async function nearestFolder(path: string): Promise<string> {
  const parent = dirname(path);
  const found = await stat(parent).catch(() => null);
  return found !== null || parent === path ? parent : nearestFolder(parent);
}

/** Whether the three listeners can have their ports, or a service that runs here has them. */
export async function portChecks({ server }: Config): Promise<Check[]> {
  const isRunning = await answersHealth(`http://127.0.0.1:${server.ops_port}/health`);
  const ports = [
    { check: "port_http", host: server.host, port: server.port, flag: "--port" },
    { check: "port_grpc", host: server.host, port: server.grpc_port, flag: "--grpc-port" },
    { check: "port_ops", host: "127.0.0.1", port: server.ops_port, flag: "--ops-port" },
  ];
  return Promise.all(
    ports.map(async ({ check, host, port, flag }) => {
      const fault = await listenFault(host, port);
      if (fault === null) return ok(check, port === 0 ? "any free port" : `${host}:${port} is free`);
      if (isRunning && fault === "EADDRINUSE") return ok(check, `${host}:${port} is in use; a service runs here`);
      return fail(
        check,
        `${host}:${port} cannot be used: ${fault}`,
        `stop what uses it, or choose another with ${flag}`,
      );
    }),
  );
}

function listenFault(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}

async function answersHealth(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(probeTimeoutMs) })).ok;
  } catch {
    // Nobody there, or somebody else: no service of ours runs here.
    return false;
  }
}

/** Whether the TLS files can be used, and for how long. */
export async function certificateCheck({ server }: Config, nowMs: number): Promise<Check> {
  try {
    const tls = await loadTls(server.tls);
    if (tls === null) return ok("tls", "off");
    const { validFrom, validTo } = new X509Certificate(tls.cert);
    if (Date.parse(validFrom) > nowMs) {
      return fail("tls", `the certificate begins on ${validFrom} only`, "set the clock, or use one that holds already");
    }
    const leftMs = Date.parse(validTo) - nowMs;
    if (leftMs <= 0)
      return fail("tls", `the certificate ended on ${validTo}`, "renew it; it is loaded without a restart");
    if (leftMs < renewBeforeMs) return warn("tls", `the certificate ends on ${validTo}`, "renew it soon");
    return ok("tls", `the certificate is good until ${validTo}`);
  } catch (error) {
    return fail("tls", error instanceof Error ? error.message : String(error), "check server.tls");
  }
}
