import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { ServiceError } from "../../../domain/call/service-error.js";

/** One Lua script of this driver. */
export interface Script {
  /** Name of its file in `scripts/`, without the ending. */
  readonly name: string;
  readonly source: string;
  /** Lowercase hex SHA-1 of `source`, by which EVALSHA names the script. */
  readonly sha1: string;
}

/** Timeout of calls for which no request waits: calls during the start and background calls. */
export const backgroundTimeoutMs = 5_000;
/** Timeout of a look-up without which a request cannot continue. It is long, so that a slow store still works. */
export const lookUpTimeoutMs = 2_000;

/** Calls to Redis. The interface is the same for a single server, Sentinel and Cluster. */
export interface RedisClient {
  /**
   * Runs a script (EVALSHA, EVAL when the server does not know it) on the node of its keys. Rejects with ServiceError
   * `storage_unavailable` when there is no answer within `timeoutMs`; the script may have run nevertheless.
   */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number | Buffer)[],
    timeoutMs?: number,
  ): Promise<unknown>;
  /** Runs one command on the node of its key. Rejects as `run` does. */
  command<T>(name: string, args: readonly (string | number | Buffer)[], timeoutMs?: number): Promise<T>;
  /**
   * Calls `send` synchronously and sends the calls within it to each server in one write to the socket: a separate write
   * costs the server more than most calls.
   */
  together(send: () => void): void;
}

/** Reads `scripts/<name>.lua`, preceded by the files `before`, such as `prelude`: a script cannot load another one. */
export function loadScript(name: string, before: readonly string[] = []): Script {
  const source = [...before, name].map(sourceOf).join("\n");
  return { name, source, sha1: createHash("sha1").update(source).digest("hex") };
}

function sourceOf(name: string): string {
  return readFileSync(new URL(`../scripts/${name}.lua`, import.meta.url), "utf8");
}

/** First words of errors of Redis and ioredis, each with its meaning in words that clients may see. */
const meanings: readonly (readonly [start: string, meaning: string])[] = [
  ["OOM", "its memory is full"],
  ["READONLY", "it is a replica and takes no writes"],
  ["LOADING", "it is still loading its data"],
  ["MISCONF", "it cannot write to its disk"],
  ["MASTERDOWN", "it has lost its primary"],
  ["NOREPLICAS", "it has too few replicas to take writes"],
  ["CLUSTERDOWN", "the cluster has no node for this data"],
  ["Too many Cluster redirections", "the nodes of the cluster disagree"],
  ["TRYAGAIN", "the cluster is moving this data"],
  ["NOAUTH", "it requires a password"],
  ["WRONGPASS", "it rejects the user or the password"],
  ["NOPERM", "our user lacks a permission"],
  ["UISFORMAT", "its data has the format of another version of the service"],
  ["BUSY", "it is busy with a script"],
  ["Command timed out", "it did not answer in time"],
  ["Connection is closed", "the connection is lost"],
  ["Stream isn't writeable", "there is no connection"],
  ["Cluster isn't ready", "there is no connection"],
  ["Reached the max retries", "the connection is lost"],
  ["Socket timeout", "it no longer answers"],
];

/** Describes a fault of the store as a clause whose subject is the store. */
export function meaningOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return meanings.find(([start]) => message.startsWith(start))?.[1] ?? "it failed";
}

/** Whether the server answered `-<code> …`. */
export function isReply(error: unknown, code: string): boolean {
  return error instanceof Error && error.message.startsWith(code);
}

/** Error of a call without an answer within its timeout. */
export const timedOut = "Command timed out";

/** First words of errors that can mean that another server has replaced this one. */
const signsOfChange = ["READONLY", "CLUSTERDOWN", "Too many Cluster", timedOut, "Connection is closed"];

/** Whether the data may be on another server now. */
export function isOfAnotherServer(error: Error): boolean {
  return signsOfChange.some((sign) => error.message.startsWith(sign));
}

/** Removes the arguments of the command, which ioredis adds to errors and Redis quotes: they do not belong in a log. */
export function withoutArguments(error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  return new Error(message.replace(/, with args beginning with:.*$/s, ""));
}

/** The error with which every failed call of this driver rejects. */
export function unavailable(why: string, cause?: unknown): ServiceError {
  return new ServiceError("storage_unavailable", `The store cannot be used: ${why}.`, { cause });
}

/** Minimum delay of a timer that counts as a pause of the process. */
const pausedMsMin = 20;

/**
 * Calls `expired` after `timeoutMs`, but only after the data that has arrived by then is read: the answer may be in the
 * socket while the process is busy. A pause of the process, such as a garbage collection, is not an outage of the store, so
 * it extends the timeout once by its length, at most by `timeoutMs`.
 */
export class Deadline {
  #timer: NodeJS.Timeout;
  #last: NodeJS.Immediate | null = null;

  constructor(timeoutMs: number, expired: () => void) {
    const dueAtMs = performance.now() + timeoutMs;
    // `setImmediate` calls back after sockets were read.
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
