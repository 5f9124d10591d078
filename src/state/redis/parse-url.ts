import { StateOpenError } from "../../domain/service/state.js";

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
}

/** Where Redis is and as whom we speak to it. */
export interface RedisTarget {
  readonly kind: "single" | "sentinel" | "cluster";
  /** Of the server, of the Sentinels, or of some nodes of the cluster. */
  readonly addresses: readonly RedisAddress[];
  /** Under which name Sentinel knows the primary; empty for the other kinds. */
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

/** Throws StateOpenError, which never shows the password. */
export function parseRedisUrl(url: string): RedisTarget {
  const parts = form.exec(url.trim())?.groups;
  if (parts?.["hosts"] === undefined) throw unreadable(url, "it has not the form of a Redis URL");
  const hosts = parts["hosts"].split(",");
  const kind = kindOf(parts["kind"], hosts.length);
  const path = parts["path"] ?? "";
  if (kind === "sentinel" && path === "") throw unreadable(url, "the name of the primary is missing at its end");
  const database = kind === "sentinel" ? "0" : path || "0";
  if (!databaseForm.test(database)) throw unreadable(url, `the database '${path}' is no number`);
  if (kind === "cluster" && database !== "0") throw unreadable(url, "a cluster has no database but 0");
  return {
    kind,
    addresses: hosts.map((host) => addressOf(host, ports[kind], url)),
    primaryName: kind === "sentinel" ? decoded(path, url) : "",
    ...loginOf(parts["login"] ?? "", url),
    database: Number(database),
    isTls: parts["tls"] === "rediss",
  };
}

/** The same URL as it may be logged: without user and password. */
export function redactedRedisUrl(url: string): string {
  return url.trim().replace(/^([a-z+]+:\/\/)?.*@/i, "$1***@");
}

function kindOf(named: string | undefined, hosts: number): RedisTarget["kind"] {
  if (named === "sentinel" || named === "cluster") return named;
  return hosts > 1 ? "cluster" : "single";
}

function addressOf(text: string, defaultPort: number, url: string): RedisAddress {
  const { host, port } = hostForm.exec(text.trim())?.groups ?? {};
  if (host === undefined) throw unreadable(url, `'${text}' is no host`);
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
    throw unreadable(url, "a '%' in it begins no escape; write %25 for the sign itself", cause);
  }
}

function unreadable(url: string, why: string, cause?: unknown): StateOpenError {
  return new StateOpenError(`the Redis URL ${redactedRedisUrl(url)} cannot be read: ${why}`, fix, { cause });
}
