import { resolve } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { printableLine } from "../../lib/display-text.js";
import { type CliIo, CommandError, UsageError } from "../command-line/cli-io.js";
import { ConfigError } from "../config/problem.js";
import type { Config } from "../config/schema.js";
import { readSecrets, readSecretText } from "../config/secrets.js";
import { readAdminToken, readServiceFile } from "../process/data-folder.js";
import { reachableHost } from "../process/listeners.js";
import { type ConfigOptions, loadForCommand } from "./load-for-command.js";

/** A running service, as a command reaches it. */
export interface ServiceTarget {
  /** `http://127.0.0.1:8080`, without a slash at the end. */
  readonly url: string;
  /** API key or admin token. */
  readonly credential: string;
  /** Where the credential was found, for people. */
  readonly credentialFrom: string;
}

const probeTimeoutMs = 2_000;
/** Of a service that was started without settings. */
const defaultPort = 8080;

/** Where a command looks for the service. */
interface ServiceAddress {
  /** Without a slash at the end. */
  readonly url: string;
  /** Whether the operator named it, with --url or UIS_URL. */
  readonly isNamed: boolean;
  /** The process that runs on the data folder, as its service.json says; null where there is none. */
  readonly pid: number | null;
}

/** The address of the service: --url, UIS_URL, service.json in the data folder, the configuration, in this order. */
export async function findService(io: CliIo, options: ConfigOptions): Promise<ServiceAddress> {
  if (options.url) return { url: checkedUrl(options.url, "--url"), isNamed: true, pid: null };
  const fromVariable = io.env["UIS_URL"];
  if (fromVariable) return { url: checkedUrl(fromVariable, "UIS_URL"), isNamed: true, pid: null };
  const { config } = await loadForCommand(io, options);
  const running = await readServiceFile(resolve(io.cwd, config.data_dir));
  if (running !== null) return { url: checkedUrl(running.url, "service.json"), isNamed: false, pid: running.pid };
  return { url: configuredUrl(config), isNamed: false, pid: null };
}

function configuredUrl({ server }: Config): string {
  const scheme = server.tls.cert_file === null ? "http" : "https";
  return `${scheme}://${reachableHost(server.host)}:${server.port === 0 ? defaultPort : server.port}`;
}

function checkedUrl(url: string, from: string): string {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new UsageError(`${from} is not an http URL: ${url}`);
  return url.replace(/\/+$/, "");
}

/**
 * The service with the administrator's credential: UIS_ADMIN_TOKEN, else the one in the data folder; with `otherwise`
 * where there is none.
 */
export async function administratorTarget(
  io: CliIo,
  options: ConfigOptions,
  otherwise: ServiceTarget | null = null,
): Promise<ServiceTarget> {
  const { url } = await findService(io, options);
  const { adminToken } = readSecrets(io.env);
  if (adminToken !== null) return { url, credential: adminToken, credentialFrom: "UIS_ADMIN_TOKEN" };
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  const credential = await readAdminToken(dataDir);
  if (credential !== null) return { url, credential, credentialFrom: `${dataDir}/admin.token` };
  if (otherwise !== null) return otherwise;
  if (!(await isServiceAt(url))) throw noService(url);
  throw new CommandError(
    `no credential: set UIS_ADMIN_TOKEN, or name the data folder of the running service with --data-dir (${dataDir} has no admin.token that you may read)`,
  );
}

/** The same, with UIS_API_KEY when that is set. */
export async function callerTarget(io: CliIo, options: ConfigOptions): Promise<ServiceTarget> {
  return (await keyTarget(io, options)) ?? (await administratorTarget(io, options));
}

/** The same, with UIS_API_KEY only when there is no credential of the administrator. */
export async function administratorOrCallerTarget(io: CliIo, options: ConfigOptions): Promise<ServiceTarget> {
  return administratorTarget(io, options, await keyTarget(io, options));
}

/** The service with UIS_API_KEY; null when that is not set. */
async function keyTarget(io: CliIo, options: ConfigOptions): Promise<ServiceTarget | null> {
  const found = readSecretText("UIS_API_KEY", io.env);
  if ("problem" in found) throw new ConfigError([found.problem], null);
  const { text: credential, from: credentialFrom } = found;
  if (credential === null) return null;
  const { url } = await findService(io, options);
  return { url, credential, credentialFrom };
}

/** Whether one of our services answers there. */
export async function isServiceAt(url: string): Promise<boolean> {
  try {
    const page = await fetch(`${url}/`, { signal: AbortSignal.timeout(probeTimeoutMs) });
    return ((await page.json()) as { service?: unknown }).service === "unified-inference";
  } catch {
    // Nobody is there, or somebody else: no service of ours runs here.
    return false;
  }
}

/** A client of one of the services, over Connect with JSON. */
export function serviceClient<T extends DescService>(service: T, { url, credential }: ServiceTarget): Client<T> {
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${credential}`);
    return next(request);
  };
  return createClient(
    service,
    createConnectTransport({ baseUrl: url, httpVersion: "1.1", useBinaryFormat: false, interceptors: [authorize] }),
  );
}

/** What the administrator's client of a service answers; rejects with CommandError. */
export async function callAsAdministrator<S extends DescService, T>(
  io: CliIo,
  options: ConfigOptions,
  service: S,
  call: (client: Client<S>) => Promise<T>,
): Promise<T> {
  const target = await administratorTarget(io, options);
  try {
    return await call(serviceClient(service, target));
  } catch (error) {
    throw toCommandError(error, target);
  }
}

/** What a failed call means for somebody at a terminal: one line that says what was tried and what to do. */
export function toCommandError(error: unknown, target: ServiceTarget): CommandError {
  const { url } = target;
  const failure = ConnectError.from(error);
  if (failure.code === Code.Unauthenticated) return notAccepted(target, failure.rawMessage, error);
  if (isUnreachable(failure.cause) || isUnreachable(error)) return noService(url, error);
  const fault = linkFault(failure.cause) ?? linkFault(error);
  if (fault !== null) return new CommandError(`${url} cannot be talked to (${fault}): check UIS_URL`, { cause: error });
  const [, status] = /^HTTP (\d{3})$/.exec(failure.rawMessage) ?? [];
  if (status !== undefined) return notOurs(url, Number(status), error);
  return new CommandError(failure.rawMessage || `${url} answered with ${Code[failure.code]}`, { cause: error });
}

export function notAccepted(target: ServiceTarget, reason: string, cause?: unknown): CommandError {
  const { url, credentialFrom } = target;
  return new CommandError(`${url} does not accept the credential in ${credentialFrom}: ${reason}`, { cause });
}

/** An answer that no service of ours gives: a proxy's, or somebody else's. */
export function notOurs(url: string, status: number, cause?: unknown): CommandError {
  return new CommandError(`${url} answered with HTTP ${status} and not as this service does: check UIS_URL`, { cause });
}

function noService(url: string, cause?: unknown): CommandError {
  return new CommandError(`no service answers at ${url}: start it with "uis serve", or set UIS_URL`, { cause });
}

const unreachableCodes: ReadonlySet<string> = new Set([
  ...["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT"],
  "UND_ERR_CONNECT_TIMEOUT",
]);

export function isUnreachable(error: unknown): boolean {
  return codesOf(error).some(({ code }) => unreachableCodes.has(code));
}

/** Why a connection failed that somebody took: a broken one, or a certificate that is not trusted. */
function linkFault(error: unknown): string | null {
  const [found] = codesOf(error);
  if (found === undefined) return null;
  return ["EPROTO", "ERR_SSL_WRONG_VERSION_NUMBER"].includes(found.code) ? "it does not speak TLS" : found.message;
}

/** Of Node's errors in a chain of causes, the outermost first. */
function codesOf(error: unknown): readonly { readonly code: string; readonly message: string }[] {
  const found: { code: string; message: string }[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && typeof cause.code === "string") {
      found.push({ code: cause.code, message: printableLine(cause.message).trim() });
    }
  }
  return found;
}
