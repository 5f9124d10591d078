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
import { identityPath, isProof, newChallenge } from "../process/token-proof.js";
import { type CommandOptions, loadForCommand } from "./load-for-command.js";

/** Address and credential of a running service. */
export interface ServiceTarget {
  /** `http://127.0.0.1:8080`, without a trailing slash. */
  readonly url: string;
  /** API key or admin token. */
  readonly credential: string;
  /** Source of the credential, for error messages. */
  readonly credentialFrom: string;
}

const probeTimeoutMs = 2_000;
/** Longer than the other timeout, because the command cannot continue without the answer. */
const proofTimeoutMs = 10_000;
/** Port that is tried if the configured port is 0. */
const defaultPort = 8080;

/** Address of the service. */
interface ServiceAddress {
  /** URL without a trailing slash. */
  readonly url: string;
  /** Whether it comes from --url or UIS_URL. */
  readonly isNamed: boolean;
  /** Id of the process that uses the data folder, from service.json; null without one. */
  readonly pid: number | null;
}

/** The address of the service: --url, UIS_URL, service.json in the data folder, the configuration, in this order. */
export async function findService(io: CliIo, options: CommandOptions): Promise<ServiceAddress> {
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
 * The service with UIS_ADMIN_TOKEN as its credential, else the token in the data folder, else `otherwise`. The token in
 * the data folder is sent only to a service that has proved that it holds it: another program may listen at the address.
 */
export async function administratorTarget(
  io: CliIo,
  options: CommandOptions,
  otherwise: ServiceTarget | null = null,
): Promise<ServiceTarget> {
  const { url } = await findService(io, options);
  const { adminToken } = readSecrets(io.env);
  if (adminToken !== null) return { url, credential: adminToken, credentialFrom: "UIS_ADMIN_TOKEN" };
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  const credential = await readAdminToken(dataDir);
  if (credential !== null && (await holdsToken(url, credential))) {
    return { url, credential, credentialFrom: `${dataDir}/admin.token` };
  }
  if (otherwise !== null) return otherwise;
  if (!(await isServiceAt(url))) throw noService(url);
  if (credential !== null) {
    throw new CommandError(
      `the service at ${url} has not proved that it uses the data folder ${dataDir}, so its token is not sent there: ` +
        "name the folder of that service with --data-dir, or set UIS_ADMIN_TOKEN",
    );
  }
  throw new CommandError(
    `no credential: set UIS_ADMIN_TOKEN, or name the data folder of the running service with --data-dir (${dataDir} has no admin.token that you may read)`,
  );
}

/** The service with UIS_API_KEY as its credential, else the administrator's. */
export async function callerTarget(io: CliIo, options: CommandOptions): Promise<ServiceTarget> {
  return (await keyTarget(io, options)) ?? (await administratorTarget(io, options));
}

/** The service with the administrator's credential, else UIS_API_KEY. */
export async function administratorOrCallerTarget(io: CliIo, options: CommandOptions): Promise<ServiceTarget> {
  return administratorTarget(io, options, await keyTarget(io, options));
}

/** The service with UIS_API_KEY; null if that is not set. */
async function keyTarget(io: CliIo, options: CommandOptions): Promise<ServiceTarget | null> {
  const found = readSecretText("UIS_API_KEY", io.env);
  if ("problem" in found) throw new ConfigError([found.problem], null);
  const { text: credential, from: credentialFrom } = found;
  if (credential === null) return null;
  const { url } = await findService(io, options);
  return { url, credential, credentialFrom };
}

/** Whether a service that holds the token answers at the URL; false for another service or program, and for none. */
async function holdsToken(url: string, token: string): Promise<boolean> {
  const challenge = newChallenge();
  try {
    const signal = AbortSignal.timeout(proofTimeoutMs);
    const page = await fetch(`${url}${identityPath}?challenge=${challenge}`, { signal, redirect: "error" });
    const { proof } = (await page.json()) as { proof?: unknown };
    return isProof(token, challenge, proof);
  } catch {
    // Nothing listens there, or the answer is not JSON: the caller finds out which.
    return false;
  }
}

/** Whether this service answers at the URL. */
export async function isServiceAt(url: string): Promise<boolean> {
  try {
    const page = await fetch(`${url}/`, { signal: AbortSignal.timeout(probeTimeoutMs) });
    return ((await page.json()) as { service?: unknown }).service === "unified-inference";
  } catch {
    // No program listens at the address, or a program that is not this service.
    return false;
  }
}

/** A client of an RPC service, over Connect with JSON. */
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

/** Calls an RPC service with the administrator's credential. Rejects with CommandError. */
export async function callAsAdministrator<S extends DescService, T>(
  io: CliIo,
  options: CommandOptions,
  service: S,
  call: (client: Client<S>) => Promise<T>,
): Promise<T> {
  const target = await administratorTarget(io, options);
  return await explained(target, call(serviceClient(service, target)));
}

/** Rejects with a CommandError that explains the failure of a call. */
export async function explained<T>(target: ServiceTarget, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw error instanceof CommandError ? error : toCommandError(error, target);
  }
}

/** All pages of a list, in order. */
export async function* pagesOf<P extends { readonly nextPageToken: string }>(
  pageOf: (pageToken: string) => Promise<P>,
): AsyncGenerator<P> {
  for (let pageToken: string | null = ""; pageToken !== null; ) {
    const page: P = await pageOf(pageToken);
    yield page;
    pageToken = page.nextPageToken || null;
  }
}

/** The message of a response. Throws CommandError if it is absent. */
export function present<T>(message: T | undefined): T {
  if (message !== undefined) return message;
  throw new CommandError("the response lacks its content: use the same version of the service and this command");
}

/** Turns an error of a call into one line with cause and remedy. */
export function toCommandError(error: unknown, target: ServiceTarget): CommandError {
  const { url } = target;
  const failure = ConnectError.from(error);
  if (failure.code === Code.Unauthenticated) return rejectedCredential(target, failure.rawMessage, error);
  if (isUnreachable(failure.cause) || isUnreachable(error)) return noService(url, error);
  const reason = linkError(failure.cause) ?? linkError(error);
  if (reason !== null) return new CommandError(`${url} cannot be reached (${reason}): check UIS_URL`, { cause: error });
  const [, status] = /^HTTP (\d{3})$/.exec(failure.rawMessage) ?? [];
  if (status !== undefined) return unexpectedAnswer(url, Number(status), error);
  return new CommandError(failure.rawMessage || `${url} answered with ${Code[failure.code]}`, { cause: error });
}

export function rejectedCredential(target: ServiceTarget, reason: string, cause?: unknown): CommandError {
  const { url, credentialFrom } = target;
  return new CommandError(`${url} does not accept the credential in ${credentialFrom}: ${reason}`, { cause });
}

/** Error for an answer of a proxy or of another program. */
export function unexpectedAnswer(url: string, status: number, cause?: unknown): CommandError {
  return new CommandError(`${url} answered with HTTP ${status}, not as this service does: check UIS_URL`, { cause });
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

/** Why an established connection failed: it broke, or the certificate is not trusted. */
function linkError(error: unknown): string | null {
  const [found] = codesOf(error);
  if (found === undefined) return null;
  return ["EPROTO", "ERR_SSL_WRONG_VERSION_NUMBER"].includes(found.code) ? "it does not use TLS" : found.message;
}

/** Node's errors in a chain of causes, outermost first. */
function codesOf(error: unknown): readonly { readonly code: string; readonly message: string }[] {
  const found: { code: string; message: string }[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && typeof cause.code === "string") {
      found.push({ code: cause.code, message: printableLine(cause.message).trim() });
    }
  }
  return found;
}
