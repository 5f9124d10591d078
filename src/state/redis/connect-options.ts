/** How our connections behave, whatever they lead to: nothing waits for a server that is gone, nothing is sent twice. */
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import type { ClusterOptions, RedisOptions } from "ioredis";
import { StateOpenError } from "../../domain/service/state.js";
import type { RedisTarget } from "./parse-url.js";

/** Files in PEM; null: the system's certificates, no client certificate. */
export interface RedisTlsFiles {
  readonly caFile: string | null;
  readonly certFile: string | null;
  readonly keyFile: string | null;
  /** The name that certificates are checked for; null: the host of the URL. */
  readonly serverName: string | null;
}

/** A server that is silent for so long while it owes an answer is taken for dead and connected to anew. */
const silenceMaxMs = 1_000;
const connectTimeoutMs = 1_000;
/** What a closing connection may take to say goodbye. */
const goodbyeMs = 200;
/** Between two looks at a server that loads its data. */
const loadingRetryMs = 100;
/** Between two looks at the layout of a cluster in which nothing fails. */
const layoutEveryMs = 5_000;
const layoutTimeoutMs = 1_000;
/** Then the next Sentinel is asked. */
const sentinelTimeoutMs = 500;
/** A slot moves once; more redirections than this mean that nodes disagree. */
const redirectionsMax = 4;

/** Until the next try to connect; at most half a second, so that we are back within one of the server's return. */
export function backOffMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt - 1, 10), 500);
}

/** What a server answers comes as the scripts and commands of every supported version give it. */
const answers = { protocol: 2, replyMapping: "legacy" } as const;

export type ServerOptions = RedisOptions & typeof answers;

/** Of one connection, also of each that a cluster is made of. */
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
    disconnectTimeout: goodbyeMs,
    maxLoadingRetryTime: loadingRetryMs,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: backOffMs,
  };
}

/** Of one server, or of the primary that Sentinel names. */
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

/** A command whose node is gone fails at once: whoever waits decides whether it is worth a second try. */
export function clusterOptions(target: RedisTarget, tls: ConnectionOptions | null) {
  return {
    redisOptions: connectionOptions(target, tls),
    enableOfflineQueue: false,
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
