import { Cluster, Command, Redis } from "ioredis";
import type { Clock, Logger } from "../../../domain/call/ports.js";
import { StateOpenError } from "../../../domain/service/state.js";
import {
  backgroundTimeoutMs,
  Deadline,
  isOfAnotherServer,
  isReply,
  meaningOf,
  type RedisClient,
  type Script,
  timedOut,
  unavailable,
  withoutArguments,
} from "./client.js";
import {
  clusterOptions,
  parseRedisUrl,
  type RedisTarget,
  type RedisTlsFiles,
  redactedRedisUrl,
  type ServerOptions,
  serverOptions,
  tlsOptions,
} from "./connect-options.js";

type Argument = string | number | Buffer;

/** Runs a command on one server. Rejects with the server's error. */
type ServerCall = (name: string, args: readonly Argument[], timeoutMs: number) => Promise<unknown>;

export interface ConnectionDeps {
  readonly url: string;
  readonly tls: RedisTlsFiles | null;
  readonly clock: Clock;
  readonly log: Logger;
  /** Factor of all timeouts of calls, for tests on busy machines; default 1. */
  readonly patience?: number;
  /** While it returns true no request waits for calls, so every call may take 5 s (REL-15). Default: always false. */
  readonly isStarting?: () => boolean;
}

/** A subscription to channels, on a connection of its own. It ends when that connection ends. */
export interface Subscription {
  close(): void;
}

export interface SubscriptionEvents {
  message(channel: string, text: string): void;
  /** Called once when the subscription has ended, also after `close`. */
  ended(): void;
}

const defaultTimeoutMs = 250;
/** Maximum number of calls that wait for answers. It is some hundred times the number of calls in 250 ms of heavy load. */
const waitingMax = 20_000;
/** Minimum interval between two searches for the primary, or readings of the cluster's layout, after failed calls. */
const searchEveryMs = 500;
/** Delay before a client that has given up connects again. */
const beginAgainMs = 100;

/**
 * The connection to Redis, and the only module that uses ioredis. A call ends within its timeout, with an answer or with
 * `storage_unavailable`; within twice that if this process was blocked when the timeout expired. Late answers are dropped.
 */
export class RedisConnection implements RedisClient {
  /** The name of our user, for ACL rules. */
  readonly user: string;
  readonly #redis: Redis | Cluster;
  readonly #target: RedisTarget;
  readonly #openSubscriber: () => Redis;
  readonly #clock: Clock;
  readonly #patience: number;
  readonly #isStarting: () => boolean;
  #waiting = 0;
  #isClosed = false;
  #onIdle: () => void = () => {};
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  /** Error of the last attempt to connect; null: it succeeded. */
  #linkFault: Error | null = null;
  #kept: readonly Script[] = [];
  #onReplaced: () => void = () => {};
  /** Addresses of the cluster's primaries in the layout that was read last. */
  #primaries: ReadonlySet<string> = new Set();

  /** Throws StateOpenError for a URL or TLS file that cannot be read; connects in the background. */
  constructor({ url, tls, clock, log, patience = 1, isStarting = () => false }: ConnectionDeps) {
    const target = parseRedisUrl(url);
    const secure = tlsOptions(target, tls);
    this.#target = target;
    this.user = target.user ?? "default";
    this.#clock = clock;
    this.#patience = patience;
    this.#isStarting = isStarting;
    if (target.kind === "cluster") {
      const cluster = new Cluster([...target.addresses], clusterOptions(target, secure));
      // Otherwise the first call that needs a node waits for its connection.
      cluster.on("+node", (node: Redis) => {
        node.on("ready", () => void this.#loadKept(node));
        node.connect().catch((error: Error) => this.#noteLinkFault(error));
      });
      cluster.on("node error", (error: Error) => this.#noteLinkFault(error));
      cluster.on("refresh", () => this.#notePrimaries(cluster));
      this.#redis = cluster;
      this.#openSubscriber = () => subscriberOf(cluster, serverOptions({ ...target, kind: "single" }, secure));
    } else {
      const options = serverOptions(target, secure);
      const redis = new Redis(options);
      redis.on("ready", () => void this.#loadKept(redis));
      this.#redis = redis;
      this.#openSubscriber = () => new Redis({ ...options, retryStrategy: null, lazyConnect: true });
    }
    this.#redis.on("end", () => this.#beginAgain());
    this.#logLink(log, redactedRedisUrl(url));
  }

  /** Resolves when calls can be made. Rejects with StateOpenError: immediately for a login fault, else after `withinMs`. */
  async ready(withinMs: number): Promise<void> {
    const untilMs = this.#clock.monotonic() + withinMs;
    while (!this.#isReady()) {
      const fault = this.#linkFault;
      if (isLoginFault(fault) || this.#clock.monotonic() >= untilMs) throw this.#unreachable(fault);
      await new Promise<void>((resolve) => this.#clock.after(10, resolve));
    }
  }

  /** A cluster is ready as soon as its layout is known, before its nodes are connected. */
  #isReady(): boolean {
    const servers = this.#redis instanceof Cluster ? this.#redis.nodes("master") : [];
    return this.#redis.status === "ready" && servers.every(({ status }) => status === "ready");
  }

  /**
   * Loads these scripts on all servers now, and on each server whenever it is connected again, because an admission has no
   * time to send its script after an outage.
   */
  async keepLoaded(scripts: readonly Script[]): Promise<void> {
    this.#kept = scripts;
    const nodes = this.#redis instanceof Cluster ? this.#redis.nodes("all") : [this.#redis];
    await Promise.all(nodes.map((node) => this.#loadKept(node)));
  }

  async run(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    timeoutMs = defaultTimeoutMs,
  ): Promise<unknown> {
    const startedAtMs = this.#clock.monotonic();
    const rest = [keys.length, ...keys, ...args];
    try {
      return await this.#send("evalsha", [script.sha1, ...rest], timeoutMs);
    } catch (error) {
      if (!isReply(error, "NOSCRIPT")) throw this.#toServiceError(error, timeoutMs);
    }
    const leftMs = Math.max(1, timeoutMs - (this.#clock.monotonic() - startedAtMs));
    return this.command("eval", [script.source, ...rest], leftMs);
  }

  async command<T>(name: string, args: readonly Argument[], timeoutMs = defaultTimeoutMs): Promise<T> {
    try {
      return (await this.#send(name.toLowerCase(), args, timeoutMs)) as T;
    } catch (error) {
      throw this.#toServiceError(error, timeoutMs);
    }
  }

  together(send: () => void): void {
    const stream = this.#redis instanceof Cluster ? null : this.#redis.stream;
    stream?.cork();
    try {
      send();
    } finally {
      stream?.uncork();
    }
  }

  /** Runs a command on every primary (of a cluster, else the one server). Rejects with the server's error. */
  onEachPrimary<T>(name: string, args: readonly Argument[], timeoutMs: number): Promise<T[]> {
    return this.eachPrimary((call) => call(name, args, timeoutMs) as Promise<T>);
  }

  /** Calls `visit` for all primaries in parallel, each time with a function that runs commands on that primary. */
  eachPrimary<T>(visit: (call: ServerCall) => Promise<T>): Promise<T[]> {
    const primaries = this.#redis instanceof Cluster ? this.#redis.nodes("master") : [this.#redis];
    return Promise.all(primaries.map((redis) => visit((...command) => this.#call(redis, ...command))));
  }

  /** Whether a replica can become primary in a way that this connection detects, which is so only in a cluster. */
  get canBeReplaced(): boolean {
    return this.#redis instanceof Cluster;
  }

  /** `listener` is called when a cluster has a new primary, which may lack acknowledged writes. */
  onReplaced(listener: () => void): void {
    this.#onReplaced = listener;
  }

  /** Rejects with `storage_unavailable` if the subscription fails within `timeoutMs`. */
  async subscribe(channels: readonly string[], events: SubscriptionEvents, timeoutMs: number): Promise<Subscription> {
    const redis = this.#openSubscriber();
    // Ignored here, because failures are reported by the end of the connection and by the promise below.
    redis.on("error", () => {});
    const cancelTimer = this.#clock.after(timeoutMs, () => redis.disconnect());
    try {
      await redis.connect();
      redis.on("message", (channel: string, text: string) => events.message(channel, text));
      await redis.subscribe(...channels);
      redis.once("end", () => events.ended());
      if (redis.status !== "ready") throw new Error("Connection is closed.");
    } catch (error) {
      redis.disconnect();
      throw unavailable("its messages cannot be received", withoutArguments(error));
    } finally {
      cancelTimer();
    }
    return { close: () => redis.disconnect() };
  }

  /** Rejects new calls and waits for the calls in progress, which end within their timeouts. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#waiting > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    this.#redis.disconnect();
  }

  /** Notifies the listener if an address that was not a primary before is one now. */
  #notePrimaries(cluster: Cluster): void {
    const before = this.#primaries;
    this.#primaries = new Set(cluster.nodes("master").map(({ options }) => `${options.host}:${options.port}`));
    if (before.size > 0 && [...this.#primaries].some((address) => !before.has(address))) this.#onReplaced();
  }

  /** Loads the scripts of `keepLoaded` on a server. Never rejects, because a call that needs a missing script sends it. */
  async #loadKept(redis: Redis): Promise<void> {
    const load = ({ source }: Script) => this.#call(redis, "script", ["load", source], backgroundTimeoutMs);
    await Promise.allSettled(this.#kept.map(load));
  }

  #send(name: string, args: readonly Argument[], timeoutMs: number): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(unavailable("it is closed"));
    if (this.#waiting >= waitingMax) return Promise.reject(unavailable(`${waitingMax} calls wait for it`));
    const leastMs = this.#isStarting() ? backgroundTimeoutMs : 0;
    return this.#call(this.#redis, name, args, Math.max(timeoutMs * this.#patience, leastMs));
  }

  /** Rejects with the server's error, or after the timeout. */
  async #call(redis: Redis | Cluster, name: string, args: readonly Argument[], timeoutMs: number): Promise<unknown> {
    const command = new Command(name, [...args], { replyEncoding: "utf8" });
    const deadline = new Deadline(timeoutMs, () => command.reject(new Error(timedOut)));
    this.#waiting += 1;
    try {
      return await redis.sendCommand(command);
    } finally {
      deadline.cancel();
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#onIdle();
    }
  }

  #toServiceError(error: unknown, timeoutMs: number): Error {
    if (!(error instanceof Error) || error.name === "ServiceError") return error as Error;
    if (isOfAnotherServer(error)) this.#findServer(error);
    const isLate = isReply(error, timedOut);
    const meaning = isLate ? `it did not answer within ${Math.round(timeoutMs)} ms` : meaningOf(error);
    return unavailable(meaning, withoutArguments(error));
  }

  /**
   * A failing call may be the first sign of a new primary. The cluster's layout is read again, and a server that has become
   * a replica is disconnected, so that Sentinel names the primary.
   */
  #findServer(error: Error): void {
    const nowMs = this.#clock.monotonic();
    if (this.#isClosed || nowMs - this.#searchedAtMs < searchEveryMs) return;
    this.#searchedAtMs = nowMs;
    const redis = this.#redis;
    if (redis instanceof Cluster) {
      if (redis.status !== "ready") return;
      redis.refreshSlotsCache((failed) => {
        // No known node answers: start again with the configured addresses.
        if (failed && redis.status === "ready") redis.disconnect(true);
      });
    } else if (isReply(error, "READONLY") && this.#target.kind === "sentinel") {
      redis.disconnect(true);
    }
  }

  /**
   * Connects again, until `close`, after ioredis has given up permanently. It does so when Sentinel names a new primary
   * while ioredis connects to the old one.
   */
  #beginAgain(): void {
    this.#clock.after(beginAgainMs, () => {
      if (this.#isClosed || this.#redis.status !== "end") return;
      this.#redis.connect().catch((error: Error) => this.#noteLinkFault(error));
    });
  }

  #noteLinkFault(error: Error): void {
    this.#linkFault = withoutArguments(error);
  }

  /** Logs one line when the connection is lost and one when it is restored. */
  #logLink(log: Logger, redis_url: string): void {
    let isUp: boolean | null = null;
    const note = (up: boolean) => {
      if (this.#isClosed || isUp === up) return;
      if (up && isUp === false) log.info({ redis_url }, "Redis is available again");
      if (!up && isUp === true) log.error({ redis_url, err: this.#linkFault }, "the connection to Redis is lost");
      isUp = up;
    };
    this.#redis.on("error", (error: Error) => this.#noteLinkFault(error));
    this.#redis.on("ready", () => {
      this.#linkFault = null;
      note(true);
    });
    this.#redis.on("close", () => note(false));
  }

  #unreachable(fault: Error | null): StateOpenError {
    const { kind, addresses, primaryName } = this.#target;
    const where = addresses.map(({ host, port }) => `${host}:${port}`).join(", ");
    const what = kind === "sentinel" ? `the primary '${primaryName}' of Sentinel` : "Redis";
    const why = fault?.message ?? "it does not answer";
    return new StateOpenError(
      `${what} at ${where} cannot be used: ${why}`,
      isLoginFault(fault)
        ? "correct user and password in the Redis URL, and allow the user all commands on uis:* and its channels"
        : "start it, or correct state.redis_url (REDIS_URL) and, for TLS, state.redis_tls",
      { cause: fault },
    );
  }
}

function isLoginFault(fault: unknown): boolean {
  return ["NOAUTH", "WRONGPASS", "NOPERM"].some((code) => isReply(fault, code));
}

/** Returns a connection to a random node: each node of a cluster receives the messages of all others. */
function subscriberOf(cluster: Cluster, options: ServerOptions): Redis {
  const nodes = cluster.nodes("master");
  const { host, port } = nodes[Math.floor(Math.random() * nodes.length)]?.options ?? options;
  const address = host === undefined || port === undefined ? {} : { host, port };
  return new Redis({ ...options, ...address, retryStrategy: null, lazyConnect: true });
}
