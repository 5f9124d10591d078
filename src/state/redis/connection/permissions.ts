import { StateOpenError } from "../../../domain/service/state.js";
import type { RedisConnection } from "./connection.js";
import { keyPrefix } from "./key-space.js";

const key = `${keyPrefix}permissions`;
const noScript = "0".repeat(40);

/**
 * Every command that this driver sends, or that its scripts call, with arguments that Redis accepts. They are queued in a
 * transaction that is discarded, so none of them runs. SUBSCRIBE cannot be queued; the change feed tests it.
 */
export const neededCommands: ReadonlyMap<string, readonly string[]> = new Map([
  ["eval", ["return 0", "0"]],
  ["evalsha", [noScript, "0"]],
  ["exists", [key]],
  ["get", [key]],
  ["hdel", [key, "f"]],
  ["hexists", [key, "f"]],
  ["hget", [key, "f"]],
  ["hgetall", [key]],
  ["hincrby", [key, "f", "1"]],
  ["hkeys", [key]],
  ["hlen", [key]],
  ["hmget", [key, "f"]],
  ["hset", [key, "f", "v"]],
  ["hsetnx", [key, "f", "v"]],
  ["hvals", [key]],
  ["incr", [key]],
  ["mget", [key]],
  ["pexpire", [key, "1"]],
  ["pexpireat", [key, "1"]],
  ["publish", [`${keyPrefix}changes`, ""]],
  ["sadd", [key, "m"]],
  ["script", ["load", "return 0"]],
  ["set", [key, "v"]],
  ["smembers", [key]],
  ["time", []],
  ["zadd", [key, "0", "m"]],
  ["zcard", [key]],
  ["zcount", [key, "0", "0"]],
  ["zmscore", [key, "m"]],
  ["zrange", [key, "0", "0"]],
  ["zrangebylex", [key, "-", "+"]],
  ["zrangebyscore", [key, "0", "0"]],
  ["zrem", [key, "m"]],
  ["zremrangebyrank", [key, "0", "0"]],
  ["zremrangebyscore", [key, "0", "0"]],
  ["zrevrangebylex", [key, "+", "-"]],
  ["zrevrangebyscore", [key, "0", "0"]],
  ["zscore", [key, "m"]],
]);

/** Commands that only a copy into this store needs. */
const commandsOfCopies: ReadonlyMap<string, readonly string[]> = new Map([
  ["scan", ["0"]],
  ["scard", [key]],
  ["unlink", [key]],
]);

/** Every command of a copy into this store. */
export const copyCommands: typeof neededCommands = new Map([...neededCommands, ...commandsOfCopies]);

type Queue = Pick<RedisConnection, "onEachPrimary">;

/**
 * Tests whether our user may run every needed command on keys and channels with our prefix. Rejects with StateOpenError,
 * whose fix is the ACL rule that is missing (E-27), or with the server's error when it does not answer in time. Returns a
 * warning if the permissions cannot be tested.
 */
export async function checkPermissions(
  connection: Queue,
  user: string,
  timeoutMs: number,
  commands = neededCommands,
): Promise<string | null> {
  const send = (name: string, args: readonly string[] = []) => faultOf(connection, name, args, timeoutMs);
  // Without a transaction the commands below would run, and without DISCARD the transaction would stay open.
  const mayNotDiscard = isDenial(await send("discard"));
  const [opening, closing] = mayNotDiscard ? [] : await Promise.all([send("multi"), send("discard")]);
  if (mayNotDiscard || isDenial(opening)) {
    return `The permissions of the Redis user '${user}' could not be tested, because it may not run MULTI and DISCARD. Allow them, or make sure of all commands on ${keyPrefix}*.`;
  }
  const broken = opening ?? closing ?? null;
  if (broken !== null) throw broken;
  // The commands are sent in one go, so that no other call of this connection comes between them.
  const opened = send("multi");
  const answers = [...commands].map(([name, args]) => send(name, args).then((fault) => ({ name, fault })));
  await Promise.all([opened, send("discard")]);
  const denied = (await Promise.all(answers)).filter(({ fault }) => isDenial(fault));
  if (denied.length === 0) return null;
  const rules = [...new Set(denied.map(({ name, fault }) => ruleFor(name, fault)))];
  throw new StateOpenError(
    `the Redis user '${user}' may not ${rules.map(meaningOf).join(", ")}, or the server lacks it`,
    `allow it: ACL SETUSER ${user} ${rules.join(" ")}`,
  );
}

/** Sends a command to the server, or to each primary of a cluster. Returns the error; null if the command was accepted. */
async function faultOf(connection: Queue, name: string, args: readonly string[], timeoutMs: number) {
  try {
    await connection.onEachPrimary(name, args, timeoutMs);
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Whether the server denies the command to our user, or lacks it, as some hosted servers do. */
export function isDenial(error: unknown): boolean {
  const message = error instanceof Error ? error.message : "";
  return message.startsWith("NOPERM") || message.includes("unknown command");
}

/**
 * ACL rule that allows a rejected command. Redis tests commands first, then keys, then channels, and reports the first
 * fault.
 */
function ruleFor(name: string, fault: Error | null): string {
  const message = fault?.message ?? "";
  if (/access .*\bkeys?\b/.test(message)) return `~${keyPrefix}*`;
  if (/access .*\bchannels?\b/.test(message)) return `&${keyPrefix}*`;
  return `+${name}`;
}

function meaningOf(rule: string): string {
  if (rule.startsWith("~")) return `use the keys ${keyPrefix}*`;
  if (rule.startsWith("&")) return `use the channels ${keyPrefix}*`;
  return `run ${rule.slice(1).toUpperCase()}`;
}
