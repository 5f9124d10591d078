import { X509Certificate } from "node:crypto";
import { access, constants, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { errorText } from "../../lib/display-text.js";
import { isLoopback } from "../../lib/network.js";
import { misspeltNames } from "../config/environment.js";
import type { Variables } from "../config/expand.js";
import { discoversModels, unconfiguredFallbacks } from "../config/model-references.js";
import type { Config } from "../config/schema.js";
import { isOffSchedule } from "../config/webhook-settings.js";
import { checkDataFiles, isOpenToOthers } from "../process/data-folder.js";
import { StartError } from "../process/lifecycle.js";
import { loadOpsToken, loadTls, reachableHost } from "../process/listeners.js";
import { type Check, fail, ok, warn } from "./check.js";
import { coreTrustChecks } from "./cores.js";

const dayMs = 86_400_000;
const renewBeforeMs = 21 * dayMs;
const probeTimeoutMs = 1_000;

/** Whether the data folder exists or can be created, and is private. `path` is absolute. */
export async function dataFolderCheck(path: string): Promise<Check> {
  const choose = "choose another folder with --data-dir (UIS_DATA_DIR)";
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
    return ok("data_dir", exists ? path : `${path} will be created`);
  } catch (error) {
    return fail("data_dir", `${path}: ${errorText(error)}`, choose);
  }
}

/** Whether the service can use its own files in the data folder. `path` is absolute. */
export async function dataFilesCheck(path: string): Promise<Check> {
  try {
    await checkDataFiles(path);
    return ok("data_files", "files of the data folder are of the right kind and readable");
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return fail("data_files", error.message, error.fix);
  }
}

async function nearestFolder(path: string): Promise<string> {
  const parent = dirname(path);
  const found = await stat(parent).catch(() => null);
  return found !== null || parent === path ? parent : nearestFolder(parent);
}

/** Whether the ports of the three listeners are free, or used by a running service. */
export async function portChecks({ server }: Config): Promise<Check[]> {
  const isRunning = await answersHealth(`http://${reachableHost(server.ops_host)}:${server.ops_port}/health`);
  const ports = [
    { check: "port_http", host: server.host, port: server.port, flag: "--port" },
    { check: "port_grpc", host: server.host, port: server.grpc_port, flag: "--grpc-port" },
    { check: "port_ops", host: server.ops_host, port: server.ops_port, flag: "--ops-port" },
  ];
  return Promise.all(
    ports.map(async ({ check, host, port, flag }) => {
      const code = await listenError(host, port);
      if (code === null) return ok(check, port === 0 ? "any free port" : `${host}:${port} is free`);
      if (isRunning && code === "EADDRINUSE") return ok(check, `${host}:${port} is in use; a service runs here`);
      const fix = `stop the program that uses it, or choose another with ${flag}`;
      return fail(check, `${host}:${port} cannot be used: ${code}`, fix);
    }),
  );
}

function listenError(host: string, port: number): Promise<string | null> {
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
    // No program listens at the address, or a program that is not this service.
    return false;
  }
}

/** Whether the TLS files are usable, and for how long. */
export async function certificateCheck({ server }: Config, nowMs: number): Promise<Check> {
  try {
    const tls = await loadTls(server.tls);
    if (tls === null) return ok("tls", "off");
    const { validFrom, validTo } = new X509Certificate(tls.cert);
    if (Date.parse(validFrom) > nowMs) {
      return fail(
        "tls",
        `the certificate is not valid before ${validFrom}`,
        "set the clock, or use a valid certificate",
      );
    }
    const leftMs = Date.parse(validTo) - nowMs;
    if (leftMs <= 0)
      return fail("tls", `the certificate expired on ${validTo}`, "renew it; it is loaded without a restart");
    if (leftMs < renewBeforeMs) return warn("tls", `the certificate expires on ${validTo}`, "renew it soon");
    return ok("tls", `the certificate is valid until ${validTo}`);
  } catch (error) {
    return fail("tls", errorText(error), "check server.tls");
  }
}

/** Whether the file with the operators' token is usable; no check without one. */
export async function opsTokenChecks({ server }: Config): Promise<readonly Check[]> {
  try {
    return (await loadOpsToken(server)) === null ? [] : [ok("ops_token", "metrics and state require the token")];
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return [fail("ops_token", error.message, error.fix)];
  }
}

/** Warnings about risks of the configuration, each with its remedy, as a start logs them. */
export function warningsOf(config: Config, env: Variables): readonly string[] {
  return toWarnings(settingChecks(config, env));
}

/** Warnings about fallbacks that the service does not have at present. */
export function fallbackWarnings(config: Config, served: ReadonlySet<string>): readonly string[] {
  return toWarnings(fallbackChecks(config, served));
}

/**
 * Fallbacks whose model does not exist: they are skipped until it does. `served`: ids of the running service's models. Null:
 * no service runs, and the models of upstreams are unknown.
 */
export function fallbackChecks(
  { models, upstreams }: Pick<Config, "models" | "upstreams">,
  served: ReadonlySet<string> | null,
): readonly Check[] {
  const configured = models ?? [];
  const fix = "add the model, or an upstream that lists it; until then requests skip the fallback";
  if (served === null && discoversModels(configured, upstreams)) return [];
  return unconfiguredFallbacks(configured).flatMap(({ id, models: named }) => {
    if (served?.has(id) === true) return [];
    const cause =
      served === null ? "is not in models, and no upstream of the configuration lists its models" : "does not exist";
    return [warn("fallbacks", `the model "${id}", a fallback of ${named.join(", ")}, ${cause}`, fix)];
  });
}

/** The warnings of `warningsOf`, except those about the store, which the open store reports itself. */
export function warningsExceptState(config: Config, env: Variables): readonly string[] {
  return toWarnings(settingChecks(config, env).filter(({ check }) => check !== "state"));
}

function toWarnings(checks: readonly Check[]): readonly string[] {
  return checks.flatMap(({ status, detail, fix }) => (status === "ok" ? [] : [`${detail}: ${fix}`]));
}

/** Risks of settings. Each is allowed, but the operator should be aware of it. */
export function settingChecks(config: Config, env: Variables): readonly Check[] {
  return [
    ...stateChecks(config),
    bindCheck(config),
    ...opsBindChecks(config),
    ...coreTrustChecks(config),
    ...egressChecks(config),
    ...variableChecks(config, env),
  ];
}

function stateChecks({ state }: Config): readonly Check[] {
  if (state.durability !== "none") return [];
  const detail = "state.durability is none: keys and everything else are in memory and lost at a stop";
  return [warn("state", detail, "remove state.durability")];
}

function bindCheck({ server: { host, tls } }: Config): Check {
  const keys = "every request needs a key";
  if (isLoopback(host)) return ok("bind", `only this machine can reach the listeners on ${host}; ${keys}`);
  if (tls.cert_file !== null) return ok("bind", `other machines can reach the listeners on ${host}, with TLS; ${keys}`);
  const detail = `other machines can reach the listeners on ${host} without TLS`;
  return warn("bind", detail, "set server.tls, or use a proxy with TLS");
}

function opsBindChecks({ server: { ops_host: host, ops_token_file: file } }: Config): readonly Check[] {
  if (isLoopback(host) || file !== null) return [];
  const detail = `other machines can read metrics and state on ${host} without a credential`;
  return [warn("ops_bind", detail, "set server.ops_token_file, or server.ops_host to 127.0.0.1")];
}

function egressChecks({ webhooks }: Config): readonly Check[] {
  const checks: Check[] = [];
  const report = (detail: string, fix: string) => checks.push(warn("webhook_egress", detail, fix));
  if (webhooks.allow_http) {
    report("webhooks.allow_http is set: events may be sent without TLS", "remove it if all receivers use HTTPS");
  }
  if (webhooks.allow_private_cidrs.length > 0) {
    const ranges = webhooks.allow_private_cidrs.join(", ");
    report(
      `webhooks.allow_private_cidrs is set: anyone who may create an endpoint can reach ${ranges}`,
      "use single addresses such as 10.0.0.5/32, or remove it",
    );
  }
  if (isOffSchedule(webhooks)) {
    const settings = "webhooks.attempt_timeout or webhooks.retry_delays";
    report(`${settings} is not the default, on which receivers rely`, "remove both");
  }
  if (checks.length > 0) return checks;
  const ports = [443, ...webhooks.allow_ports].join(", ");
  const detail = `only HTTPS to public addresses, on the ports ${ports} and from 1024`;
  return [ok("webhook_egress", webhooks.deliver ? detail : `${detail}; another process sends`)];
}

function variableChecks({ upstreams }: Config, env: Variables): readonly Check[] {
  return misspeltNames(env, Object.keys(upstreams)).map(({ name, meant }) =>
    warn("variables", `the variable ${name} is unknown and has no effect`, `did you mean ${meant}?`),
  );
}
