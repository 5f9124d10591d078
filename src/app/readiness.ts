import type { SpoolLevel } from "../domain/metering/spool.js";
import type { State } from "../domain/service/state.js";
import type { Phase } from "./lifecycle.js";
import type { Readiness } from "./public-pages.js";

/**
 * `/ready` of the operations listener. An unavailable store is shown and leaves the service ready: inference goes on, and
 * taking every replica out of the load balancer would not help. A replica that rejects inference because its own disk is
 * full and its memory too is not ready.
 */
export async function readiness(
  phase: Phase,
  state: Pick<State, "kind" | "health">,
  spool: SpoolLevel,
): Promise<{ ready: boolean; detail: object }> {
  const { ok, latencyMs, durability, writeFault, warnings } = await state.health();
  return {
    ready: isReady(phase, spool),
    detail: {
      status: phase,
      reason: storageReason({ writeFault }, spool),
      state: { kind: state.kind, ok, latency_ms: latencyMs, durability, write_fault: writeFault, warnings },
      usage: { spooled: spool.size, memory_only: spool.memoryOnly, spool_fault: spool.fault },
    },
  };
}

/** Whether new inference is taken. */
function isReady(phase: Phase, spool: SpoolLevel): boolean {
  return phase === "ready" && !(spool.fault !== null && spool.size >= spool.sizeMax);
}

/** The same for the public listener, without detail. */
export function publicReadiness(phase: Phase, spool: SpoolLevel): Readiness {
  const isStored = spool.fault === null && spool.memoryOnly === 0;
  return { isReady: isReady(phase, spool), reason: isStored ? null : "storage_unavailable" };
}

function storageReason({ writeFault }: { writeFault: string | null }, spool: SpoolLevel): string | null {
  const parts: string[] = [];
  if (writeFault !== null) parts.push(`the store cannot be written: ${writeFault}`);
  if (spool.fault !== null) parts.push(`the spool cannot be written: ${spool.fault}`);
  if (spool.memoryOnly > 0) parts.push(`the usage of ${spool.memoryOnly} finished requests is in memory only`);
  return parts.length === 0 ? null : parts.join("; ");
}
