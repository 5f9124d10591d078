import type { Logger } from "../../domain/call/ports.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { openState } from "../compose-state.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, ok, warn } from "./check.js";
import type { OtherClock } from "./clock.js";

/** Every request waits for one round trip or two. */
const latencyWarnMs = 20;
/** The quickest of so many is what the network takes; the first also opens things. */
const roundTrips = 3;

const durableFix = "set appendonly yes, appendfsync always and maxmemory-policy noeviction for Redis";

/** What a start would log is told by the checks. */
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export interface RedisFindings {
  readonly checks: readonly Check[];
  /** Null: there is no Redis, or it does not answer. */
  readonly clock: OtherClock | null;
}

/** Whether the configured Redis would be accepted by a start, and how safe and how far it is; nothing without one. */
export async function lookAtRedis(config: Config): Promise<RedisFindings> {
  if (config.state.redis_url === null) return { checks: [], clock: null };
  try {
    const state = await openState(config, { clock: createSystemClock(), log: silent });
    try {
      return await lookAtState(state);
    } finally {
      await state.close();
    }
  } catch (error) {
    if (!(error instanceof StateOpenError)) throw error;
    return { checks: [fail("redis", error.message, error.fix)], clock: null };
  }
}

/** The same of a state that is open; nothing of one that is not in Redis. */
export async function lookAtState(state: Pick<State, "kind" | "health" | "now">): Promise<RedisFindings> {
  if (state.kind !== "redis") return { checks: [], clock: null };
  const { ok: answers, latencyMs, durability, warnings } = await state.health();
  if (!answers) {
    const reason = warnings.join("; ") || "it does not answer";
    return { checks: [fail("redis", reason, "look at its log, and at the network on the way")], clock: null };
  }
  let quickestMs = latencyMs;
  for (let i = 1; i < roundTrips; i++) quickestMs = Math.min(quickestMs, (await state.health()).latencyMs);
  const aheadMs = Date.now() - state.now();
  const durable = warnings.map((warning) => warn("redis_durability", warning, durableFix));
  return {
    checks: [latencyCheck(quickestMs, durability), ...durable],
    clock: { name: "Redis", aheadMs },
  };
}

function latencyCheck(latencyMs: number, durability: string): Check {
  const detail = `answers within ${latencyMs.toFixed(1)} ms; durability ${durability}`;
  if (latencyMs < latencyWarnMs) return ok("redis", detail);
  return warn("redis", `${detail}: every request waits for it`, "move Redis and this service nearer to each other");
}
