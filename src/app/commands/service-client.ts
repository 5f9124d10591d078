import { resolve } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { readAdminToken } from "../admin-token-file.js";
import { type CliIo, CommandError, UsageError } from "../cli-io.js";
import { readSecrets } from "../config/secrets.js";
import { type ConfigOptions, loadForCommand } from "./load-for-command.js";

/** A running service, as a command reaches it. */
export interface ServiceTarget {
  /** `http://127.0.0.1:8080`, without a slash at the end. */
  readonly url: string;
  /** API key or admin token. */
  readonly credential: string;
}

/** Where a service is that was started without settings. */
export const defaultUrl = "http://127.0.0.1:8080";

/** The service at UIS_URL, with the administrator's credential: UIS_ADMIN_TOKEN, else the one in the data folder. */
export async function administratorTarget(io: CliIo, options: ConfigOptions): Promise<ServiceTarget> {
  const url = serviceUrl(io);
  const { adminToken } = await readSecrets(io.env);
  if (adminToken !== null) return { url, credential: adminToken };
  const { config } = await loadForCommand(io, options);
  const dataDir = resolve(io.cwd, config.data_dir);
  const credential = await readAdminToken(dataDir);
  if (credential !== null) return { url, credential };
  throw new CommandError(
    `no credential: set UIS_ADMIN_TOKEN, or name the data folder of the running service with --data-dir (${dataDir} has no admin.token that you may read)`,
  );
}

/** The same, with UIS_API_KEY when that is set. */
export async function callerTarget(io: CliIo, options: ConfigOptions): Promise<ServiceTarget> {
  const apiKey = io.env["UIS_API_KEY"];
  return apiKey ? { url: serviceUrl(io), credential: apiKey } : administratorTarget(io, options);
}

function serviceUrl(io: CliIo): string {
  const url = io.env["UIS_URL"] || defaultUrl;
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new UsageError(`UIS_URL is not an http URL: ${url}`);
  return url.replace(/\/+$/, "");
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

/** What a failed call means for somebody at a terminal. */
export function toCommandError(error: unknown, { url }: ServiceTarget): CommandError {
  const failure = ConnectError.from(error);
  if (failure.code === Code.Unauthenticated) {
    return new CommandError(`${url} does not accept the credential: ${failure.rawMessage}`, { cause: error });
  }
  if (isUnreachable(failure.cause) || isUnreachable(error)) {
    return new CommandError(`no service answers at ${url}: start it with "uis serve", or set UIS_URL`, {
      cause: error,
    });
  }
  return new CommandError(failure.rawMessage || `${url} answered with ${Code[failure.code]}`, { cause: error });
}

export function isUnreachable(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ETIMEDOUT"].includes(String(cause.code))) {
      return true;
    }
  }
  return false;
}
