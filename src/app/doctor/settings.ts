import { X509Certificate } from "node:crypto";
import { access, constants, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { isLoopback } from "../../lib/network.js";
import { misspeltNames } from "../config/environment.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { isOffSchedule } from "../config/webhook-settings.js";
import { isOpenToOthers } from "../process/data-folder.js";
import { loadTls } from "../process/listeners.js";
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

/** Warnings about what the configuration allows, each with its fix: logged at start, and among the checks of `uis doctor`. */
export function warningsOf(config: Config, env: Variables): readonly string[] {
  return [...stateChecks(config), ...settingChecks(config, env)].flatMap(toWarning);
}

/** The warnings except those about the state, which the state reports itself. */
export function warningsBesideState(config: Config, env: Variables): readonly string[] {
  return settingChecks(config, env).flatMap(toWarning);
}

function toWarning({ status, detail, fix }: Check): string[] {
  return status === "ok" ? [] : [`${detail}: ${fix}`];
}

/** What settings open to others, and what they bend. Each is allowed, but should be known. */
export function settingChecks(config: Config, env: Variables): readonly Check[] {
  return [bindCheck(config), ...egressChecks(config), ...variableChecks(env)];
}

/** What settings do with what is kept. */
export function stateChecks({ state }: Config): readonly Check[] {
  if (state.durability !== "none") return [];
  const detail = "state.durability is none: keys and everything else are in memory and lost at the end";
  return [warn("state", detail, "leave state.durability out")];
}

function bindCheck({ server: { host, tls } }: Config): Check {
  const keys = "every request needs a key";
  if (isLoopback(host)) return ok("bind", `only this machine reaches the listeners on ${host}; ${keys}`);
  if (tls.cert_file !== null) return ok("bind", `others reach the listeners on ${host}, with TLS; ${keys}`);
  return warn(
    "bind",
    `the listeners on ${host} can be reached from outside without TLS`,
    "set server.tls, or put a proxy that speaks TLS in front",
  );
}

function egressChecks({ webhooks }: Config): readonly Check[] {
  const checks: Check[] = [];
  const open = (detail: string, fix: string) => checks.push(warn("webhook_egress", detail, fix));
  if (webhooks.allow_http) {
    open("webhooks.allow_http is set, so events can leave without TLS", "leave it out where receivers speak HTTPS");
  }
  if (webhooks.allow_private_cidrs.length > 0) {
    const ranges = webhooks.allow_private_cidrs.join(", ");
    open(
      `webhooks.allow_private_cidrs opens ${ranges} to whoever may register an endpoint`,
      "name single addresses, such as 10.0.0.5/32, or leave it out",
    );
  }
  if (isOffSchedule(webhooks)) {
    open(
      "webhooks.attempt_timeout or webhooks.retry_delays is changed, and receivers rely on the defaults",
      "leave both out",
    );
  }
  if (checks.length > 0) return checks;
  const ports = [443, ...webhooks.allow_ports].join(", ");
  const detail = `HTTPS to public addresses only, on the ports ${ports} and from 1024`;
  return [ok("webhook_egress", webhooks.deliver ? detail : `${detail}; another process sends`)];
}

function variableChecks(env: Variables): readonly Check[] {
  return misspeltNames(env).map(({ name, meant }) =>
    warn("variables", `the variable ${name} is not known and has no effect`, `write ${meant}, if that is meant`),
  );
}
