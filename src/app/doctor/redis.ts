import type { Logger } from "../../domain/ports.js";
import { StateOpenError } from "../../domain/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { openState } from "../compose-state.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, ok, warn } from "./check.js";

/** What a start would log is told by the checks. */
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Whether the configured Redis would be accepted by a start, and how safe it is; none of it without one. */
export async function redisChecks(config: Config): Promise<Check[]> {
  if (config.state.redis_url === null) return [];
  try {
    const state = await openState(config, { clock: createSystemClock(), log: silent });
    const { latencyMs, durability, warnings } = await state.health();
    await state.close();
    const answers = ok("redis", `answers within ${latencyMs.toFixed(1)} ms; durability ${durability}`);
    return [answers, ...warnings.map((warning) => warn("redis_durability", warning, "see docs/config.md, state"))];
  } catch (error) {
    if (!(error instanceof StateOpenError)) throw error;
    return [fail("redis", error.message, error.fix)];
  }
}
