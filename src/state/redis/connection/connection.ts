import { Cluster, Command, Redis } from "ioredis";
import type { Clock, Logger } from "../../../domain/call/ports.js";
import { StateOpenError } from "../../../domain/service/state.js";
import {
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

export interface ConnectionDeps {
  readonly url: string;
  readonly tls: RedisTlsFiles | null;
  readonly clock: Clock;
  readonly log: Logger;
  /** Makes all timeouts of calls so many times longer, for tests on machines that do other work, too; default 1. */
  readonly patience?: number;
}

/** What is published on some channels, on a connection of its own. It ends for good when that connection does. */
export interface Subscription {
  close(): void;
}

export interface SubscriptionEvents {
  message(channel: string, text: string): void;
  /** Once; also after `close`. */
  ended(): void;
}

const defaultTimeoutMs = 250;
/** Calls that may wait for answers: some hundred times what 250 ms of heavy load bring. */
const waitingMax = 20_000;
/** Between two requests for a new layout, or a new look for the primary, that failing calls cause. */
const rescueEveryMs = 500;
/** After which a client that has given up is told to begin again. */
const beginAgainMs = 100;

/**
 * The connection to Redis, and the only module that knows ioredis. Whatever happens to the server, a call ends within
 * its timeout, with an answer or with `storage_unavailable`; where this process stood still when it was over, within
 * twice that. What comes too late is dropped.
 */
export class RedisConnection implements RedisClient {
  readonly #redis: Redis | Cluster;
  readonly #target: RedisTarget;
  readonly #openSubscriber: () => Redis;
  readonly #clock: Clock;
  readonly #patience: number;
  #waiting = 0;
  #isClosed = false;
  #onIdle: () => void = () => {};
  #rescuedAtMs = Number.NEGATIVE_INFINITY;
  /** Why the last try to connect failed; null: it did not. */
  #linkFault: Error | null = null;
  #kept: readonly Script[] = [];

  /** Throws StateOpenError for a URL or TLS file that cannot be read; connects in the background. */
  constructor({ url, tls, clock, log, patience = 1 }: ConnectionDeps) {
    const target = parseRedisUrl(url);
    const secure = tlsOptions(target, tls);
    this.#target = target;
    this.#clock = clock;
    this.#patience = patience;
    if (target.kind === "cluster") {
      const cluster = new Cluster([...target.addresses], clusterOptions(target, secure));
      // Else a node is connected to by the first call that needs it, which then has to wait.
      cluster.on("+node", (node: Redis) => {
        node.on("ready", () => void this.#loadKept(node));
        node.connect().catch((error: Error) => this.#noteLinkFault(error));
      });
      cluster.on("node error", (error: Error) => this.#noteLinkFault(error));
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

  /** Resolves when calls can be made. Rejects with StateOpenError: at once where we are refused, else after `withinMs`. */
  async ready(withinMs: number): Promise<void> {
    const untilMs = this.#clock.monotonic() + withinMs;
    while (this.#redis.status !== "ready") {
      const fault = this.#linkFault;
      const isRefused = ["NOAUTH", "WRONGPASS", "NOPERM"].some((code) => isReply(fault, code));
      if (isRefused || this.#clock.monotonic() >= untilMs) throw this.#unreachable(fault);
      await new Promise<void>((resolve) => this.#clock.after(10, resolve));
    }
  }

  /**
   * Gives all servers these scripts now, and each server again whenever it is connected to anew: the first call after an
   * outage need not bring its script, for which an admission has no time.
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

  /** The same command on every primary: one, or those of the cluster. Rejects with what the server said. */
  onEachPrimary<T>(name: string, args: readonly Argument[], timeoutMs = defaultTimeoutMs): Promise<T[]> {
    const primaries = this.#redis instanceof Cluster ? this.#redis.nodes("master") : [this.#redis];
    return Promise.all(primaries.map(async (redis) => (await answerOf(sendTo(redis, name, args, timeoutMs))) as T));
  }

  /** Rejects with `storage_unavailable` when that cannot be had within `timeoutMs`. */
  async subscribe(channels: readonly string[], events: SubscriptionEvents, timeoutMs: number): Promise<Subscription> {
    const redis = this.#openSubscriber();
    // Why a connection fails is told by its end and by the promise below.
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
      throw unavailable("its messages cannot be heard", withoutArguments(error));
    } finally {
      cancelTimer();
    }
    return { close: () => redis.disconnect() };
  }

  /** Refuses new calls and waits for those under way, none of which outlasts its timeout. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#waiting > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    this.#redis.disconnect();
  }

  /** Never rejects: a script that a server lacks is brought by the call that needs it. */
  async #loadKept(redis: Redis): Promise<void> {
    const timeoutMs = defaultTimeoutMs * this.#patience;
    const load = ({ source }: Script) => answerOf(sendTo(redis, "script", ["load", source], timeoutMs));
    await Promise.allSettled(this.#kept.map(load));
  }

  async #send(name: string, args: readonly Argument[], timeoutMs: number): Promise<unknown> {
    if (this.#isClosed) throw unavailable("it is closed");
    if (this.#waiting >= waitingMax) throw unavailable(`${waitingMax} calls wait for it`);
    const { answer, deadline } = sendTo(this.#redis, name, args, timeoutMs * this.#patience);
    this.#waiting += 1;
    try {
      return await answer;
    } finally {
      deadline.cancel();
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#onIdle();
    }
  }

  #toServiceError(error: unknown, timeoutMs: number): Error {
    if (!(error instanceof Error) || error.name === "ServiceError") return error as Error;
    if (isOfAnotherServer(error)) this.#rescue(error);
    const cause = withoutArguments(error);
    const meaning = isReply(error, timedOut)
      ? `it did not answer within ${Math.round(timeoutMs)} ms`
      : meaningOf(error);
    return unavailable(meaning, cause);
  }

  /**
   * A failing call may be the first to see that the primary is another server now. Sentinel and clusters are asked again,
   * a replica where the primary should be is left.
   */
  #rescue(error: Error): void {
    const nowMs = this.#clock.monotonic();
    if (this.#isClosed || nowMs - this.#rescuedAtMs < rescueEveryMs) return;
    this.#rescuedAtMs = nowMs;
    const redis = this.#redis;
    if (redis instanceof Cluster) {
      if (redis.status !== "ready") return;
      redis.refreshSlotsCache((failed) => {
        // No known node answers: begin again with the addresses that were configured.
        if (failed && redis.status === "ready") redis.disconnect(true);
      });
    } else if (isReply(error, "READONLY") && this.#target.kind === "sentinel") {
      redis.disconnect(true);
    }
  }

  /**
   * A client gives up for good when Sentinel names a new primary just while it is on its way to the old one. We never do
   * before we are closed.
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

  /** One line when the link breaks and one when it is back, not one for each try. */
  #logLink(log: Logger, redis_url: string): void {
    let isUp: boolean | null = null;
    const note = (up: boolean) => {
      if (this.#isClosed || isUp === up) return;
      if (up && isUp === false) log.info({ redis_url }, "Redis is back");
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
    const isLogin = ["NOAUTH", "WRONGPASS", "NOPERM"].some((code) => isReply(fault, code));
    return new StateOpenError(
      `${what} at ${where} cannot be used: ${why}`,
      isLogin
        ? "correct user and password in the Redis URL, and allow the user all commands on uis:* and its channels"
        : "start it, or correct state.redis_url (REDIS_URL) and, for TLS, state.redis_tls",
      { cause: fault },
    );
  }
}

function sendTo(redis: Redis | Cluster, name: string, args: readonly Argument[], timeoutMs: number): Sent {
  const command = new Command(name, [...args], { replyEncoding: "utf8" });
  const deadline = new Deadline(timeoutMs, () => command.reject(new Error(timedOut)));
  return { answer: redis.sendCommand(command) as Promise<unknown>, deadline };
}

/** A call under way. Its deadline is to be cancelled when it has ended. */
interface Sent {
  readonly answer: Promise<unknown>;
  readonly deadline: Deadline;
}

async function answerOf({ answer, deadline }: Sent): Promise<unknown> {
  try {
    return await answer;
  } finally {
    deadline.cancel();
  }
}

/** Any node of a cluster hears what is published on any other; another one is taken each time. */
function subscriberOf(cluster: Cluster, options: ServerOptions): Redis {
  const nodes = cluster.nodes("master");
  const { host, port } = nodes[Math.floor(Math.random() * nodes.length)]?.options ?? options;
  const address = host === undefined || port === undefined ? {} : { host, port };
  return new Redis({ ...options, ...address, retryStrategy: null, lazyConnect: true });
}

/** A timer that is later than that was held up by more than a moment of work. */
const pausedMsMin = 20;

/**
 * Calls `expired` when `timeoutMs` are over and what has come from the server by then is read: where this process was busy
 * at that moment, an answer may wait in its socket. If it stood still for longer, for a collection of garbage or because
 * the machine was elsewhere, as much time is added as was lost, once and at most `timeoutMs`. A pause of ours is not an
 * outage of the store.
 */
export class Deadline {
  #timer: NodeJS.Timeout;
  #last: NodeJS.Immediate | null = null;

  constructor(timeoutMs: number, expired: () => void) {
    const dueAtMs = performance.now() + timeoutMs;
    // Immediates run after sockets were read.
    const expire = (): void => {
      this.#last = setImmediate(expired);
    };
    this.#timer = setTimeout(() => {
      const lateMs = Math.min(timeoutMs, performance.now() - dueAtMs);
      if (lateMs < pausedMsMin) expire();
      else this.#timer = setTimeout(expire, lateMs);
    }, timeoutMs);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    if (this.#last !== null) clearImmediate(this.#last);
  }
}
