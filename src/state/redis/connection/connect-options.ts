import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import type { ClusterOptions, RedisOptions } from "ioredis";
import { StateOpenError } from "../../../domain/service/state.js";

/** Files in PEM; null: the system's certificates, no client certificate. */
export interface RedisTlsFiles {
  readonly caFile: string | null;
  readonly certFile: string | null;
  readonly keyFile: string | null;
  /** The name that certificates are checked for; null: the host of the URL. */
  readonly serverName: string | null;
}

/** If a server with open calls sends nothing for this long, the connection is replaced. */
const silenceMaxMs = 1_000;
const connectTimeoutMs = 1_000;
/** Time for a connection to close. */
const disconnectMs = 200;
/** Interval at which a server that is loading its data is checked. */
const loadingRetryMs = 100;
/** Interval at which the layout of a cluster is read while there are no faults. */
const layoutEveryMs = 5_000;
const layoutTimeoutMs = 1_000;
/** Timeout after which the next Sentinel is used. */
const sentinelTimeoutMs = 500;
/** Maximum number of redirections of a call. A moved slot causes one; more than this mean that the nodes disagree. */
const redirectionsMax = 4;

/**
 * Delay before the next attempt to connect. It is at most 500 ms, so that the connection is restored within a second after
 * the server.
 */
export function backOffMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt - 1, 10), 500);
}

/** Protocol version and reply format that all supported versions of Redis have. */
const answers = { protocol: 2, replyMapping: "legacy" } as const;

export type ServerOptions = RedisOptions & typeof answers;

/**
 * Options of one connection, and of each connection of a cluster. No call waits for an unreachable server, and none is sent
 * twice.
 */
function connectionOptions(target: RedisTarget, tls: ConnectionOptions | null): ServerOptions {
  return {
    ...answers,
    connectionName: "uis",
    disableClientInfo: true,
    ...(target.user === null ? {} : { username: target.user }),
    ...(target.password === null ? {} : { password: target.password }),
    ...(tls === null ? {} : { tls }),
    connectTimeout: connectTimeoutMs,
    socketTimeout: silenceMaxMs,
    disconnectTimeout: disconnectMs,
    maxLoadingRetryTime: loadingRetryMs,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: backOffMs,
  };
}

/** Options of one server, or of the primary that Sentinel names. */
export function serverOptions(target: RedisTarget, tls: ConnectionOptions | null): ServerOptions {
  const options = { ...connectionOptions(target, tls), db: target.database };
  if (target.kind !== "sentinel") return { ...options, ...target.addresses[0] };
  return {
    ...options,
    sentinels: [...target.addresses],
    name: target.primaryName,
    role: "master",
    failoverDetector: true,
    sentinelRetryStrategy: backOffMs,
    sentinelReconnectStrategy: backOffMs,
    sentinelCommandTimeout: sentinelTimeoutMs,
    ...(tls === null ? {} : { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  };
}

/** A command to a lost node fails immediately; the caller decides whether to repeat it. */
export function clusterOptions(target: RedisTarget, tls: ConnectionOptions | null) {
  return {
    redisOptions: connectionOptions(target, tls),
    enableOfflineQueue: false,
    // The ready check asks a random node without waiting for its connection, and each failure of it connects to the cluster
    // again.
    enableReadyCheck: false,
    clusterRetryStrategy: backOffMs,
    clusterNodeRetryStrategy: backOffMs,
    maxRedirections: redirectionsMax,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 20,
    slotsRefreshTimeout: layoutTimeoutMs,
    slotsRefreshInterval: layoutEveryMs,
  } satisfies ClusterOptions;
}

/** Null: no TLS. Throws StateOpenError for a file that cannot be read. */
export function tlsOptions(target: RedisTarget, files: RedisTlsFiles | null): ConnectionOptions | null {
  const hasFiles = files !== null && (files.caFile ?? files.certFile ?? files.keyFile ?? files.serverName) !== null;
  if (!target.isTls && !hasFiles) return null;
  const pem = (name: "ca" | "cert" | "key", file: string | null | undefined) =>
    file === null || file === undefined ? {} : { [name]: readPem(file) };
  return {
    ...pem("ca", files?.caFile),
    ...pem("cert", files?.certFile),
    ...pem("key", files?.keyFile),
    ...(files?.serverName ? { servername: files.serverName } : {}),
  };
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new StateOpenError(
      `the TLS file ${file} for Redis cannot be read`,
      "correct its path under state.redis_tls, or let this user read it",
      { cause },
    );
  }
}

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
}

/** Addresses and login of Redis. */
export interface RedisTarget {
  readonly kind: "single" | "sentinel" | "cluster";
  /** Addresses of the server, of the Sentinels, or of some nodes of the cluster. */
  readonly addresses: readonly RedisAddress[];
  /** Sentinel's name of the primary; empty for the other kinds. */
  readonly primaryName: string;
  readonly user: string | null;
  readonly password: string | null;
  /** Number of the database; 0 in a cluster. */
  readonly database: number;
  readonly isTls: boolean;
}

const form =
  /^(?:(?<tls>rediss?)(?:\+(?<kind>sentinel|cluster))?:\/\/)?(?!\w*:\/\/)(?:(?<login>.*)@)?(?<hosts>[^/@]+)(?:\/(?<path>[^/]*))?$/;
const hostForm = /^(?<host>\[[0-9a-fA-F:.]+\]|[^:\s[\]]+)(?::(?<port>\d{1,5}))?$/;
const databaseForm = /^\d{1,4}$/;
const ports = { single: 6379, sentinel: 26379, cluster: 6379 } as const;

const fix =
  "write redis://[user:password@]host:port/0, rediss:// for TLS, redis+sentinel://host1,host2/name, redis+cluster://a,b,c or a:6379,b:6379";

/** Throws StateOpenError, which never shows the password. The nodes of a cluster may each have the scheme. */
export function parseRedisUrl(url: string): RedisTarget {
  const parts = form.exec(url.trim().replace(/,\s*rediss?:\/\//g, ","))?.groups;
  if (parts?.["hosts"] === undefined) throw unreadable(url, "it is not a Redis URL");
  const hosts = parts["hosts"].split(",");
  const kind = kindOf(parts["kind"], hosts.length);
  const path = parts["path"] ?? "";
  if (kind === "sentinel" && path === "") throw unreadable(url, "the name of the primary is missing at its end");
  const database = kind === "sentinel" ? "0" : path || "0";
  if (!databaseForm.test(database)) throw unreadable(url, `the database '${path}' is not a number`);
  if (kind === "cluster" && database !== "0") throw unreadable(url, "a cluster has only the database 0");
  return {
    kind,
    addresses: hosts.map((host) => addressOf(host, ports[kind], url)),
    primaryName: kind === "sentinel" ? decoded(path, url) : "",
    ...loginOf(parts["login"] ?? "", url),
    database: Number(database),
    isTls: parts["tls"] === "rediss",
  };
}

/** The URL for logs, without user and password. */
export function redactedRedisUrl(url: string): string {
  return url.trim().replace(/^([a-z+]+:\/\/)?.*@/i, "$1***@");
}

function kindOf(named: string | undefined, hosts: number): RedisTarget["kind"] {
  if (named === "sentinel" || named === "cluster") return named;
  return hosts > 1 ? "cluster" : "single";
}

function addressOf(text: string, defaultPort: number, url: string): RedisAddress {
  const { host, port } = hostForm.exec(text.trim())?.groups ?? {};
  if (host === undefined) throw unreadable(url, `'${text}' is not a host`);
  return { host: host.replace(/^\[|\]$/g, ""), port: port === undefined ? defaultPort : Number(port) };
}

/** `password` alone is written `:password@`, as everywhere with Redis. */
function loginOf(login: string, url: string): Pick<RedisTarget, "user" | "password"> {
  const colon = login.indexOf(":");
  const user = colon === -1 ? login : login.slice(0, colon);
  const password = colon === -1 ? "" : login.slice(colon + 1);
  return { user: decoded(user, url) || null, password: decoded(password, url) || null };
}

function decoded(text: string, url: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw unreadable(url, "it has an invalid percent escape; write %25 for a '%'", cause);
  }
}

function unreadable(url: string, why: string, cause?: unknown): StateOpenError {
  return new StateOpenError(`the Redis URL ${redactedRedisUrl(url)} cannot be read: ${why}`, fix, { cause });
}
