import type { State } from "../domain/service/state.js";
import type { Phase } from "./lifecycle.js";

/**
 * `/ready` with its detail. A store that is lost shows here and does not make the service unready: inference goes on, and
 * taking every replica out of the balancer at once would help nobody.
 */
export async function readiness(
  phase: Phase,
  state: Pick<State, "kind" | "health">,
): Promise<{ ready: boolean; detail: object }> {
  const { ok, latencyMs, durability, warnings } = await state.health();
  return {
    ready: phase === "ready",
    detail: { status: phase, state: { kind: state.kind, ok, latency_ms: latencyMs, durability, warnings } },
  };
}
