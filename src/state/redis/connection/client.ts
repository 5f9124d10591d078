import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { ServiceError } from "../../../domain/call/service-error.js";

/** One Lua script of this driver. */
export interface Script {
  /** Name of its file in `scripts/`, without the ending. */
  readonly name: string;
  readonly source: string;
  /** Lowercase hex SHA-1 of `source`: how the server knows it. */
  readonly sha1: string;
}

/** The connection as the stores and the ledger see it: the same for one server, Sentinel and Cluster. */
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
  /** One command, on the node of the key that it names. Rejects as `run` does. */
  command<T>(name: string, args: readonly (string | number | Buffer)[], timeoutMs?: number): Promise<T>;
  /**
   * Calls `send` at once. What it asks for leaves in one write where one server takes it: waking a server costs more than
   * most of what it is asked for.
   */
  together(send: () => void): void;
}

/**
 * Reads `scripts/<name>.lua`, which lies in `src` and in `dist`. The files in `before`, such as
 * `prelude`, are put in front of it, because a script cannot load another one.
 */
export function loadScript(name: string, before: readonly string[] = []): Script {
  const source = [...before, name].map(sourceOf).join("\n");
  return { name, source, sha1: createHash("sha1").update(source).digest("hex") };
}

function sourceOf(name: string): string {
  return readFileSync(new URL(`../scripts/${name}.lua`, import.meta.url), "utf8");
}

/** How Redis begins an error, and what that means for whoever waits. Safe to show to callers. */
const meanings: readonly (readonly [start: string, meaning: string])[] = [
  ["OOM", "its memory is full"],
  ["READONLY", "it takes no writes, for it is a replica"],
  ["LOADING", "it is still loading its data"],
  ["MISCONF", "it cannot write to its disk"],
  ["MASTERDOWN", "it has lost its primary"],
  ["NOREPLICAS", "it has too few replicas to take writes"],
  ["CLUSTERDOWN", "the cluster has no node for this data"],
  ["Too many Cluster redirections", "the nodes of the cluster disagree"],
  ["TRYAGAIN", "the cluster is moving this data"],
  ["NOAUTH", "it wants a password"],
  ["WRONGPASS", "it refuses the user or the password"],
  ["NOPERM", "it does not allow this to our user"],
  ["UISFORMAT", "another version of the service has written it in a format that this one cannot read"],
  ["BUSY", "it is busy with a script"],
  ["Command timed out", "it did not answer in time"],
  ["Connection is closed", "the connection is lost"],
  ["Stream isn't writeable", "there is no connection"],
  ["Cluster isn't ready", "there is no connection"],
  ["Reached the max retries", "the connection is lost"],
  ["Socket timeout", "it has stopped to answer"],
];

/** What is wrong with the store, in half a sentence. */
export function meaningOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return meanings.find(([start]) => message.startsWith(start))?.[1] ?? "it failed";
}

/** Whether the server answered `-<code> …`. */
export function isReply(error: unknown, code: string): boolean {
  return error instanceof Error && error.message.startsWith(code);
}

/** What a call ends with that got no answer in its time. */
export const timedOut = "Command timed out";

/** Faults that a server has when its place is taken by another one. */
const signsOfChange = ["READONLY", "CLUSTERDOWN", "Too many Cluster", timedOut, "Connection is closed"];

/** Whether it may help to ask Sentinel or the cluster where our data is now. */
export function isOfAnotherServer(error: Error): boolean {
  return signsOfChange.some((sign) => error.message.startsWith(sign));
}

/** ioredis hangs the whole command on its errors, and Redis quotes what it does not know: neither belongs in a log. */
export function withoutArguments(error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  return new Error(message.replace(/, with args beginning with:.*$/s, ""));
}

/** The only error that leaves this driver's connection. */
export function unavailable(why: string, cause?: unknown): ServiceError {
  return new ServiceError("storage_unavailable", `The store cannot be used: ${why}.`, { cause });
}
